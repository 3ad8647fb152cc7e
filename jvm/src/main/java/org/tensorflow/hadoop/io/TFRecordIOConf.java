package org.tensorflow.hadoop.io;

import org.apache.hadoop.conf.Configuration;

/** Settings of jobs that read and write TFRecord files. */
public class TFRecordIOConf {
    /** Options of tables, as tfos/table.h lists them, are set behind this: {@code tfrecord.onCorrupt=skip}. */
    static final String PREFIX = "tfrecord.";

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
