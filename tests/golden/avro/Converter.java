// Records what the Java converter makes of each case: the schema's text and the body behind the id, into converter.tsv.
//
//   mvn -q -f tests/golden/avro/pom.xml dependency:copy-dependencies -DoutputDirectory=target/libs -DincludeScope=runtime
//   cd tests/golden/avro && java -Dstdout.encoding=UTF-8 -cp 'target/libs/*' Converter.java > converter.tsv
//
// It is Apicurio's converter, whose AvroData is a copy of Confluent's; Confluent's own is not in Maven Central.
import org.apache.kafka.connect.data.*;
import io.apicurio.registry.utils.converter.avro.*;
import org.apache.avro.generic.*;
import org.apache.avro.io.*;
import io.apicurio.registry.serde.avro.NonRecordContainer;
import java.io.*; import java.util.*; import java.nio.ByteBuffer; import java.math.BigDecimal;
public class Converter {
  static AvroData data = new AvroData(new AvroDataConfig(Map.of()));
  static AvroData bare = new AvroData(new AvroDataConfig(Map.of("connect.meta.data","false")));
  static void p(String name, Schema s, Object v) { p(data, name, s, v); }
  static void p(AvroData data, String name, Schema s, Object v) {
    try {
      org.apache.avro.Schema a = data.fromConnectSchema(s);
      String text = a.toString();
      Object o = data.fromConnectData(s, v);
      String hex = "null";
      if (o != null) {
        if (o instanceof NonRecordContainer) o = ((NonRecordContainer)o).getValue();
        ByteArrayOutputStream b = new ByteArrayOutputStream();
        BinaryEncoder e = EncoderFactory.get().directBinaryEncoder(b, null);
        new GenericDatumWriter<Object>(a).write(o, e); e.flush();
        hex = HexFormat.of().formatHex(b.toByteArray());
      }
      System.out.println(name + "\t" + text + "\t" + hex);
    } catch (Throwable t) { System.out.println(name + "\tFAILS\t" + t.toString()); }
  }
  public static void main(String[] x) {
    System.out.println("case\tschema\tbody");
    Schema OS = Schema.OPTIONAL_STRING_SCHEMA;
    p("string", Schema.STRING_SCHEMA, "order-1");
    p("optional string", OS, "a");
    p("optional string null", OS, null);
    Schema json = SchemaBuilder.string().name("io.debezium.data.Json").version(1).optional().build();
    p("json", json, "{\"a\": \"é😀\"}");
    Schema jsond = SchemaBuilder.string().name("io.debezium.data.Json").version(1).optional().defaultValue("{}").build();
    p("json default", jsond, "{}");
    Schema uuid = SchemaBuilder.string().name("io.debezium.data.Uuid").version(1).defaultValue("00000000-0000-0000-0000-000000000000").build();
    p("uuid default", uuid, "7f2e");
    p("int16", SchemaBuilder.int16().build(), (short)-7);
    p("optional int16 default", SchemaBuilder.int16().optional().defaultValue((short)3).build(), (short)300);
    p("int32", Schema.INT32_SCHEMA, -1);
    p("int64", Schema.INT64_SCHEMA, Long.MIN_VALUE);
    p("micro timestamp", SchemaBuilder.int64().name("io.debezium.time.MicroTimestamp").version(1).build(), 1700000000000000L);
    p("float32", Schema.FLOAT32_SCHEMA, 0.1f);
    p("optional float32 default", SchemaBuilder.float32().optional().defaultValue(0.1f).build(), 0.1f);
    p("optional float64 default", SchemaBuilder.float64().optional().defaultValue(1e21).build(), 1.5);
    p("boolean", SchemaBuilder.bool().optional().defaultValue(true).build(), false);
    p("bytes", Schema.BYTES_SCHEMA, new byte[]{0,1,(byte)0xfe});
    p("optional bytes", Schema.OPTIONAL_BYTES_SCHEMA, ByteBuffer.wrap(new byte[]{0,1,(byte)0xfe}));
    p("optional bytes default", SchemaBuilder.bytes().optional().defaultValue(ByteBuffer.wrap(new byte[]{0,34,92,(byte)0x7f,(byte)0x80,(byte)0xfe})).build(), ByteBuffer.wrap(new byte[]{}));
    p("decimal", org.apache.kafka.connect.data.Decimal.schema(2), new BigDecimal("123.40"));
    p("optional decimal precision", org.apache.kafka.connect.data.Decimal.builder(2).parameter("connect.decimal.precision","10").optional().build(), new BigDecimal("-1.50"));
    p("decimal default", org.apache.kafka.connect.data.Decimal.builder(2).parameter("connect.decimal.precision","10").optional().defaultValue(new BigDecimal("1.28")).build(), new BigDecimal("-1.50"));
    p("decimal negative scale", org.apache.kafka.connect.data.Decimal.builder(-2).parameter("connect.decimal.precision","3").build(), new BigDecimal("1200").setScale(-2));
    p("decimal scale beyond precision", org.apache.kafka.connect.data.Decimal.builder(5).parameter("connect.decimal.precision","3").build(), new BigDecimal("0.00123"));
    p("connect date", org.apache.kafka.connect.data.Date.builder().optional().build(), new java.util.Date(86400000L*10));
    p("connect time", org.apache.kafka.connect.data.Time.builder().build(), new java.util.Date(1000));
    p("connect timestamp", org.apache.kafka.connect.data.Timestamp.builder().defaultValue(new java.util.Date(0)).build(), new java.util.Date(1000));
    p("strings", SchemaBuilder.array(OS).optional().build(), Arrays.asList("a", null));
    p("no strings", SchemaBuilder.array(OS).build(), List.of());
    p("array default", SchemaBuilder.array(OS).optional().defaultValue(Arrays.asList("a", null)).build(), List.of());
    Map<String,String> m = new LinkedHashMap<>(); m.put("b","1"); m.put("a",null);
    p("map", SchemaBuilder.map(Schema.STRING_SCHEMA, OS).optional().build(), m);
    Map<String,String> path = new LinkedHashMap<>(); path.put("type","path"); path.put("closed","true");
    p("map of a path", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.STRING_SCHEMA).build(), path);
    p("map default", SchemaBuilder.map(Schema.STRING_SCHEMA, OS).optional().defaultValue(m).build(), m);
    Schema vsd = SchemaBuilder.struct().name("io.debezium.data.VariableScaleDecimal").version(1).doc("Variable scaled decimal").field("scale", Schema.INT32_SCHEMA).field("value", Schema.BYTES_SCHEMA).build();
    Schema ovsd = SchemaBuilder.struct().optional().name("io.debezium.data.VariableScaleDecimal").version(1).doc("Variable scaled decimal").field("scale", Schema.INT32_SCHEMA).field("value", Schema.BYTES_SCHEMA).build();
    Struct v = new Struct(vsd).put("scale",2).put("value", new byte[]{0x7d});
    Struct ov = new Struct(ovsd).put("scale",2).put("value", new byte[]{0x7d});
    p("variable", vsd, v);
    p("optional variable", ovsd, ov);
    p("variables", SchemaBuilder.array(ovsd).build(), List.of(ov));
    Schema env = SchemaBuilder.struct().name("srv.public.outbox.Order.Value").version(3).field("payload", json).field("eventType", Schema.STRING_SCHEMA).field("total", ovsd).field("tax", ovsd).field("flag", SchemaBuilder.bool().optional().defaultValue(true).build()).build();
    p("envelope", env, new Struct(env).put("payload","{}").put("eventType","X").put("total", ov));
    p(bare, "envelope bare", env, new Struct(env).put("payload","{}").put("eventType","X").put("total", ov));
    Schema env2 = SchemaBuilder.struct().name("srv.public.outbox.Order.Value").field("a", vsd).field("b", ovsd).field("c", vsd).build();
    p("envelope required and optional", env2, new Struct(env2).put("a", v).put("b", ov).put("c", v));
    Schema envdd = SchemaBuilder.struct().name("srv.Value").field("i16", SchemaBuilder.int16().optional().defaultValue((short)3).build()).field("f", SchemaBuilder.float32().optional().defaultValue(0.1f).build()).field("d", SchemaBuilder.float64().defaultValue(1e21).build()).field("l", SchemaBuilder.int64().defaultValue(9007199254740993L).build()).field("u", uuid).field("bytes", SchemaBuilder.bytes().optional().defaultValue(ByteBuffer.wrap(new byte[]{0,34,92,(byte)0x7f,(byte)0x80,(byte)0xfe})).build()).field("dec", org.apache.kafka.connect.data.Decimal.builder(2).parameter("connect.decimal.precision","10").optional().defaultValue(new BigDecimal("1.28")).build()).field("arr", SchemaBuilder.array(OS).optional().defaultValue(Arrays.asList("a", null)).build()).field("map", SchemaBuilder.map(Schema.STRING_SCHEMA, OS).optional().defaultValue(m).build()).field("text", SchemaBuilder.string().optional().defaultValue("é😀\"\u0001/").build()).field("nan", SchemaBuilder.float64().optional().defaultValue(Double.NaN).build()).field("ts", org.apache.kafka.connect.data.Timestamp.builder().optional().defaultValue(new java.util.Date(5)).build()).field("mapd", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.STRING_SCHEMA).optional().defaultValue(Map.of("k","v")).build()).field("arrd", SchemaBuilder.array(Schema.STRING_SCHEMA).optional().defaultValue(List.of("a")).build()).build();
    p("defaults in fields", envdd, new Struct(envdd));
    Schema inner = SchemaBuilder.struct().name("payload.a").optional().field("x", Schema.OPTIONAL_INT32_SCHEMA).build();
    Schema item = SchemaBuilder.struct().name("payload.items").field("x", Schema.OPTIONAL_INT32_SCHEMA).build();
    Schema exp = SchemaBuilder.struct().name("payload").optional().field("a", inner).field("items", SchemaBuilder.array(item).optional().build()).field("s", OS).build();
    p("expanded", exp, new Struct(exp).put("a", new Struct(inner).put("x",5)).put("items", List.of(new Struct(item))).put("s", "t"));
    Schema deep2 = SchemaBuilder.struct().name("payload.a.b").optional().field("x", Schema.OPTIONAL_INT64_SCHEMA).build();
    Schema deep1 = SchemaBuilder.struct().name("payload.a").optional().field("b", deep2).build();
    Schema deep = SchemaBuilder.struct().name("payload").optional().field("a", deep1).build();
    p("deep", deep, new Struct(deep).put("a", new Struct(deep1).put("b", new Struct(deep2).put("x", 5L))));
    Schema expenv = SchemaBuilder.struct().name("srv.public.outbox.Order.Value").field("payload", exp).field("eventType", Schema.STRING_SCHEMA).build();
    p("expanded in envelope", expenv, new Struct(expenv).put("eventType","X").put("payload", new Struct(exp).put("a", new Struct(inner).put("x",5)).put("s", "t")));
    Schema hy = SchemaBuilder.struct().name("my-srv.public.outbox.Order.Value").field("a", Schema.INT32_SCHEMA).build();
    p("hyphen in namespace", hy, new Struct(hy).put("a", 1));
    Schema enu = SchemaBuilder.string().name("io.debezium.data.Enum").version(1).parameter("allowed","a,b").build();
    p("enum", enu, "a");
    Schema empty = SchemaBuilder.struct().name("payload").optional().build();
    p("empty struct", empty, new Struct(empty));
    p("no schema", null, "[]");
    Map<String,Object> mixed = new LinkedHashMap<>(); mixed.put("b", Arrays.asList(true, (byte)1, (short)-2, 3, 4L, 0.5f, -0.5, "x", null)); mixed.put("a", Map.of()); mixed.put("c", List.of());
    p("map without schema", null, mixed);
    Schema pt = SchemaBuilder.struct().name("io.debezium.data.geometry.Point").version(1).doc("Geometry (POINT)").optional().field("x", Schema.FLOAT64_SCHEMA).field("y", Schema.FLOAT64_SCHEMA).field("wkb", Schema.OPTIONAL_BYTES_SCHEMA).field("srid", Schema.OPTIONAL_INT32_SCHEMA).build();
    p("point", pt, new Struct(pt).put("x",1.0).put("y",2.0));
    Schema nulls = SchemaBuilder.struct().name("a.b.C").field("plain", SchemaBuilder.struct().name("NoSpace").field("q", Schema.INT32_SCHEMA).build()).field("again", SchemaBuilder.struct().name("NoSpace").optional().field("q", Schema.INT32_SCHEMA).build()).build();
    p("no namespace inside one", nulls, new Struct(nulls).put("plain", new Struct(nulls.field("plain").schema()).put("q", 1)));
    Schema sparse = SchemaBuilder.struct().name("io.debezium.data.SparseDoubleVector").version(1).doc("Sparse double vector").field("dimensions", Schema.INT16_SCHEMA).field("vector", SchemaBuilder.map(Schema.INT16_SCHEMA, Schema.FLOAT64_SCHEMA).build()).build();
    Schema osparse = SchemaBuilder.struct().optional().name("io.debezium.data.SparseDoubleVector").version(1).doc("Sparse double vector").field("dimensions", Schema.INT16_SCHEMA).field("vector", SchemaBuilder.map(Schema.INT16_SCHEMA, Schema.FLOAT64_SCHEMA).build()).build();
    Map<Short,Double> some = new LinkedHashMap<>(); some.put((short)1, 1.5); some.put((short)3, 2.5);
    Map<Short,Double> turned = new LinkedHashMap<>(); turned.put((short)3, 2.5); turned.put((short)1, -0.5);
    p("sparse vector", sparse, new Struct(sparse).put("dimensions", (short)5).put("vector", some));
    Schema sparses = SchemaBuilder.struct().name("srv.Value").field("s", osparse).field("t", sparse).field("l", SchemaBuilder.array(sparse).build()).build();
    p("sparse vectors in a row", sparses, new Struct(sparses).put("s", new Struct(osparse).put("dimensions", (short)5).put("vector", turned)).put("t", new Struct(sparse).put("dimensions", (short)300).put("vector", Map.of())).put("l", List.of(new Struct(sparse).put("dimensions", (short)2).put("vector", Map.of((short)2, 1e20)))));
  }
}
