import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntConsumer;

/**
 * Esper: one statement for each form of rule (attributes and operators), and each rule a context partition of it,
 * which holds the rule's values. A statement for each rule would need classes of its own for each.
 */
final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static IntConsumer found;

    public static void main(String[] arguments) throws Exception {
        Harness.run(arguments, Main::load);
    }

    private static Harness.Loaded load(List<String> rules, List<String> events) throws Exception {
        JsonNode first = JSON.readTree(events.get(0));
        List<String> names = new ArrayList<>();
        List<Object> types = new ArrayList<>();
        first.properties().forEach(field -> {
            names.add(field.getKey());
            types.add(value(field.getValue()).getClass());
        });
        Configuration configuration = new Configuration();
        configuration.getCompiler().getByteCode().setAllowSubscriber(false);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        configuration.getCommon().addEventType("Event", names.toArray(new String[0]), types.toArray());
        List<List<JsonNode>> read = new ArrayList<>();
        Map<String, String> forms = new HashMap<>();
        for (String line : rules) {
            List<JsonNode> rule = new ArrayList<>();
            JSON.readTree(line).forEach(rule::add);
            read.add(rule);
            String form = form(rule);
            if (!forms.containsKey(form)) {
                forms.put(form, "Rule" + forms.size());
                configuration.getCommon().addEventType(forms.get(form), fields(rule), kinds(rule));
            }
        }
        EPRuntime runtime = EPRuntimeProvider.getRuntime("peers", configuration);
        for (Map.Entry<String, String> form : forms.entrySet()) {
            deploy(runtime, configuration, form.getKey(), form.getValue());
        }
        for (int number = 0; number < read.size(); number++) {
            List<Object> values = values(read.get(number));
            values.add(0, number);
            runtime.getEventService().sendEventObjectArray(values.toArray(), forms.get(form(read.get(number))));
        }
        List<Object[]> rows = new ArrayList<>();
        for (String event : events) {
            JsonNode node = JSON.readTree(event);
            rows.add(names.stream().map(name -> value(node.get(name))).toArray());
        }
        return (event, consumer) -> {
            found = consumer;
            runtime.getEventService().sendEventObjectArray(rows.get(event), "Event");
        };
    }

    private static void deploy(EPRuntime runtime, Configuration configuration, String form, String rule)
            throws Exception {
        String text = "create context Held" + rule + " initiated by " + rule + " as rule;\n"
                + "@name('matches') context Held" + rule
                + " select context.rule.number as number from Event(" + form + ")";
        EPCompiled compiled = EPCompilerProvider.getCompiler().compile(text, new CompilerArguments(configuration));
        for (EPStatement statement : runtime.getDeploymentService().deploy(compiled).getStatements()) {
            if (statement.getName().equals("matches")) {
                statement.addListener((matched, gone, from, by) -> {
                    for (int row = 0; row < matched.length; row++) {
                        found.accept((Integer) matched[row].get("number"));
                    }
                });
            }
        }
    }

    /** The rule with its values left out: they are properties of the context. */
    private static String form(List<JsonNode> rule) {
        List<String> parts = new ArrayList<>();
        int field = 0;
        for (JsonNode condition : rule) {
            String name = condition.get(0).asText();
            String operator = condition.get(1).asText();
            List<String> values = new ArrayList<>();
            for (JsonNode ignored : condition.get(2)) {
                values.add("context.rule.v" + field++);
            }
            parts.add(switch (operator) {
                case "in" -> name + " in (" + String.join(", ", values) + ")";
                case "between" -> name + " between " + values.get(0) + " and " + values.get(1);
                default -> name + (operator.equals("<>") ? " != " : " = ") + values.get(0);
            });
        }
        return String.join(" and ", parts);
    }

    private static String[] fields(List<JsonNode> rule) {
        List<String> names = new ArrayList<>(List.of("number"));
        for (int field = 0; field < values(rule).size(); field++) {
            names.add("v" + field);
        }
        return names.toArray(new String[0]);
    }

    private static Object[] kinds(List<JsonNode> rule) {
        List<Object> kinds = new ArrayList<>(List.of(Integer.class));
        values(rule).forEach(value -> kinds.add(value.getClass()));
        return kinds.toArray();
    }

    private static List<Object> values(List<JsonNode> rule) {
        List<Object> values = new ArrayList<>();
        rule.forEach(condition -> condition.get(2).forEach(value -> values.add(value(value))));
        return values;
    }

    private static Object value(JsonNode value) {
        return value.isTextual() ? value.asText() : value.isDouble() ? (Object) value.asDouble() : value.asInt();
    }
}
