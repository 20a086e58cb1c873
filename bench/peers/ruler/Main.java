import java.util.List;
import software.amazon.event.ruler.GenericMachine;

/**
 * Event Ruler: rules and events as JSON. With "reuse", states are shared wherever they can be, without which
 * rules with several values for several attributes take minutes to add.
 */
final class Main {
    public static void main(String[] arguments) throws Exception {
        boolean reuse = arguments.length > 4 && arguments[4].equals("reuse");
        Harness.run(arguments, (rules, events) -> load(rules, events, reuse));
    }

    private static Harness.Loaded load(List<String> rules, List<String> events, boolean reuse) throws Exception {
        GenericMachine<Integer> machine =
                GenericMachine.<Integer>builder().withAdditionalNameStateReuse(reuse).build();
        for (int number = 0; number < rules.size(); number++) {
            machine.addRule(number, rules.get(number));
        }
        return (event, found) -> {
            for (int rule : machine.rulesForJSONEvent(events.get(event))) {
                found.accept(rule);
            }
        };
    }
}
