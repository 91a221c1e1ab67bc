// Records what Confluent's AvroConverter, JsonSchemaConverter and ProtobufConverter make of each case, into converters.tsv.
//
// Reads inputs (case, converter, options, the value as Kafka's JsonConverter writes it with its schema), one a line, and adds
// the text of the schema, as a JSON string, and what stands behind the id, in hex; `null` is Kafka's null, `FAILS` a refusal.
//
//   CONVERTER_INPUTS=/tmp/inputs.tsv cargo test --lib registered::golden
//   java -cp 'jars/*' Recorder.java < /tmp/inputs.tsv > converters.tsv
//
// On the class path are Confluent's converters of version 8.3.1 and what they need. They are not in Maven Central.
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.Message;
import io.confluent.connect.avro.AvroConverter;
import io.confluent.connect.avro.AvroData;
import io.confluent.connect.avro.AvroDataConfig;
import io.confluent.connect.json.JsonSchemaData;
import io.confluent.connect.json.JsonSchemaDataConfig;
import io.confluent.connect.protobuf.ProtobufData;
import io.confluent.connect.protobuf.ProtobufDataConfig;
import io.confluent.kafka.schemaregistry.client.MockSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.json.jackson.Jackson;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

public class Recorder {
  static final ObjectMapper JSON = Jackson.newObjectMapper();

  public static void main(String[] arguments) throws Exception {
    JsonConverter reader = new JsonConverter();
    reader.configure(Map.of("replace.null.with.default", "false"), false);
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      String[] columns = line.split("\t", -1);
      String outcome;
      try {
        SchemaAndValue input = reader.toConnectData("t", columns[3].getBytes(StandardCharsets.UTF_8));
        Map<String, String> options = new HashMap<>();
        for (String option : columns[2].split(",")) {
          if (!option.isEmpty()) {
            options.put(option.split("=")[0], option.split("=")[1]);
          }
        }
        outcome = switch (columns[1]) {
          case "avro" -> avro(options, input);
          case "protobuf" -> protobuf(options, input);
          default -> jsonSchema(options, input);
        };
      } catch (Throwable failure) {
        if (System.getenv("WHY") != null) {
          System.err.println(columns[0] + ": " + failure);
        }
        outcome = "FAILS\t";
      }
      out.println(line + "\t" + outcome);
    }
  }

  static String avro(Map<String, String> options, SchemaAndValue input) throws Exception {
    String text = new AvroData(new AvroDataConfig(options)).fromConnectSchema(input.schema()).toString();
    AvroConverter converter = new AvroConverter(new MockSchemaRegistryClient());
    Map<String, String> all = new HashMap<>(options);
    all.put("schema.registry.url", "mock://recorder");
    converter.configure(all, false);
    byte[] record = converter.fromConnectData("t", input.schema(), input.value());
    String body = record == null ? "null" : hex(Arrays.copyOfRange(record, 5, record.length));
    return JSON.writeValueAsString(text) + "\t" + body;
  }

  static String jsonSchema(Map<String, String> options, SchemaAndValue input) throws Exception {
    JsonSchemaData data = new JsonSchemaData(new JsonSchemaDataConfig(options));
    String text = data.fromConnectSchema(input.schema()).canonicalString();
    Object value = data.fromConnectData(input.schema(), input.value());
    String body = value == null ? "null" : hex(JSON.writeValueAsBytes(value));
    return JSON.writeValueAsString(text) + "\t" + body;
  }

  static String protobuf(Map<String, String> options, SchemaAndValue input) throws Exception {
    var pair = new ProtobufData(new ProtobufDataConfig(options)).fromConnectData(input.schema(), input.value());
    String text = JSON.writeValueAsString(pair.getSchema().canonicalString());
    if (pair.getValue() == null) {
      return text + "\tnull";
    }
    Message message = (Message) pair.getValue();
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    String name = message.getDescriptorForType().getFullName();
    body.write(pair.getSchema().toMessageIndexes(name).toByteArray());
    message.writeTo(body);
    return text + "\t" + hex(body.toByteArray());
  }

  static String hex(byte[] bytes) {
    return HexFormat.of().formatHex(bytes);
  }
}
