import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.Map;
import java.util.TimeZone;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Values;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;

import static java.nio.charset.StandardCharsets.UTF_8;

/** Reads a literal from each line, as InsertHeader does, and prints it with the headers that two converters write. */
class HeaderLiterals {
    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        HeaderConverter simple = new SimpleHeaderConverter();
        JsonConverter json = new JsonConverter();
        json.configure(Map.of("converter.type", "header", "schemas.enable", "true"));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, UTF_8);
        out.println("Kafka Connect " + AppInfoParser.getVersion() + ", Java " + System.getProperty("java.version"));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        for (String literal = lines.readLine(); literal != null; literal = lines.readLine()) {
            SchemaAndValue read = Values.parseString(literal);
            out.println(String.join("\t", literal, header(simple, read), header(json, read)));
        }
    }

    private static String header(HeaderConverter converter, SchemaAndValue read) {
        try {
            byte[] bytes = read == null
                    ? converter.fromConnectHeader("topic", "header", null, null)
                    : converter.fromConnectHeader("topic", "header", read.schema(), read.value());
            return bytes == null ? "\\N" : new String(bytes, UTF_8);
        } catch (RuntimeException failed) {
            return "error";
        }
    }
}
