import java.util.List;
import software.amazon.event.ruler.GenericMachine;

/** Event Ruler: rules and events as JSON. */
final class Main {
    public static void main(String[] arguments) throws Exception {
        Harness.run(arguments, Main::load);
    }

    private static Harness.Loaded load(List<String> rules, List<String> events) throws Exception {
        GenericMachine<Integer> machine = new GenericMachine<>();
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
