package org.tfos.spark;

import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.util.Identifiable;

/** A param that is a text, or null where nothing is said, which Spark's own cannot be saved with. */
public final class TextParam extends Param<String> {
    private static final long serialVersionUID = 1L;

    public TextParam(Identifiable parent, String name, String doc) {
        super(parent, name, doc);
    }

    @Override
    public String jsonEncode(String value) {
        return value == null ? "null" : super.jsonEncode(value);
    }

    @Override
    public String jsonDecode(String json) {
        return json.equals("null") ? null : super.jsonDecode(json);
    }
}
