import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.DoublePoint;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.Term;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorConfiguration;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.MultipassTermFilteredPresearcher;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.search.BooleanClause.Occur;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.TermQuery;

/** Lucene Monitor: rules as boolean queries of terms and points; documents made before anything is timed. */
final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        Harness.run(arguments, Main::load);
    }

    private static Harness.Loaded load(List<String> rules, List<String> events) throws Exception {
        // Of its presearchers the fastest for rules of several terms.
        Monitor monitor = new Monitor(
                new KeywordAnalyzer(), new MultipassTermFilteredPresearcher(3), new MonitorConfiguration());
        List<MonitorQuery> queries = new ArrayList<>();
        for (int number = 0; number < rules.size(); number++) {
            queries.add(new MonitorQuery(Integer.toString(number), query(JSON.readTree(rules.get(number)))));
        }
        monitor.register(queries);
        List<Document> documents = new ArrayList<>();
        for (String event : events) {
            documents.add(document(JSON.readTree(event)));
        }
        return (event, found) -> {
            for (QueryMatch match : monitor.match(documents.get(event), QueryMatch.SIMPLE_MATCHER).getMatches()) {
                found.accept(Integer.parseInt(match.getQueryId()));
            }
        };
    }

    /** A rule is a list of conditions, each a list of name, operator and values. */
    private static Query query(JsonNode rule) {
        BooleanQuery.Builder query = new BooleanQuery.Builder();
        for (JsonNode condition : rule) {
            String name = condition.get(0).asText();
            JsonNode values = condition.get(2);
            switch (condition.get(1).asText()) {
                case "=" -> query.add(term(name, values.get(0)), Occur.MUST);
                case "<>" -> query.add(term(name, values.get(0)), Occur.MUST_NOT);
                case "in" -> {
                    BooleanQuery.Builder any = new BooleanQuery.Builder();
                    values.forEach(value -> any.add(term(name, value), Occur.SHOULD));
                    query.add(any.build(), Occur.MUST);
                }
                default -> query.add(
                        DoublePoint.newRangeQuery(name, values.get(0).asDouble(), values.get(1).asDouble()),
                        Occur.FILTER);
            }
        }
        return query.build();
    }

    private static Query term(String name, JsonNode value) {
        return new TermQuery(new Term(name, value.asText()));
    }

    /** Texts and whole numbers can be found by value, all numbers by range. */
    private static Document document(JsonNode event) {
        Document document = new Document();
        event.properties().forEach(field -> {
            JsonNode value = field.getValue();
            if (value.isNumber()) {
                document.add(new DoublePoint(field.getKey(), value.asDouble()));
            }
            if (!value.isDouble()) {
                document.add(new StringField(field.getKey(), value.asText(), Field.Store.NO));
            }
        });
        return document;
    }
}
