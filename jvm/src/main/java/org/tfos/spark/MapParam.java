package org.tfos.spark;

import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.util.Identifiable;
import org.apache.spark.sql.types.Metadata;
import org.tfos.Status;
import org.tfos.TfosException;
import scala.Tuple2;
import scala.collection.Iterator;

/** A param of names by names, which Spark does not have: it is saved as an object of JSON. */
public final class MapParam extends Param<Map<String, String>> {
    private static final long serialVersionUID = 1L;

    public MapParam(Identifiable parent, String name, String doc) {
        super(parent, name, doc);
    }

    @Override
    public String jsonEncode(Map<String, String> value) {
        return Json.of(value);
    }

    @Override
    public Map<String, String> jsonDecode(String json) {
        Map<String, String> value = new TreeMap<>();
        // What Spark knows of columns is such an object, too: it brings the parser.
        Iterator<Tuple2<String, Object>> members = Metadata.fromJson(json).map().iterator();
        while (members.hasNext()) {
            Tuple2<String, Object> member = members.next();
            if (!(member._2() instanceof String)) {
                throw new TfosException(
                        Status.CORRUPT,
                        "the param '" + name() + "' is names by names; found " + json + ", where '" + member._1()
                                + "' has no name");
            }
            value.put(member._1(), (String) member._2());
        }
        return value;
    }
}
