package org.tensorflow.hadoop.io;

import org.apache.hadoop.conf.Configuration;

/** Settings of jobs that read and write TFRecord files. */
public class TFRecordIOConf {
    /** Options of tables, as tfos/table.h lists them, are set behind this: {@code tfrecord.onCorrupt=skip}. */
    static final String PREFIX = "tfrecord.";

    private static final String COMPRESS = "mapreduce.output.fileoutputformat.compress";
    private static final String DEFAULT_CODEC = "org.apache.hadoop.io.compress.DefaultCodec";

    /** The same for files that are written, with what Hadoop itself is told of compression. */
    static String outputOptionsOf(Configuration configuration) {
        boolean compresses = configuration.getBoolean(COMPRESS, false);
        if (!compresses || configuration.get(PREFIX + "codec") != null) {
            return optionsOf(configuration);
        }
        Configuration told = new Configuration(configuration);
        told.set(PREFIX + "codec", configuration.get(COMPRESS + ".codec", DEFAULT_CODEC));
        return optionsOf(told);
    }

    /** The options of a configuration, for records as they are. */
    static String optionsOf(Configuration configuration) {
        StringBuilder options = new StringBuilder("{\"recordType\":\"ByteArray\"");
        for (String name : new String[] {"codec", "compression", "onCorrupt", "index"}) {
            String value = configuration.get(PREFIX + name);
            if (value != null) {
                String escaped = value.replace("\\", "\\\\").replace("\"", "\\\"");
                options.append(",\"").append(name).append("\":\"").append(escaped).append('"');
            }
        }
        return options.append('}').toString();
    }
}
