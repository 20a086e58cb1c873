import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntConsumer;

/**
 * Runs a peer over the rules and events that the bench has written, and writes what it found.
 *
 * <p>Arguments of every harness: a file of rules, one a line; a file of events, one a line; the file for the
 * result; the seconds of processor time that matching may take. The first round gathers the pairs of event and
 * rule and stops after a quarter of the seconds. Six others repeat its events and are timed, each for an eighth
 * of the seconds; the first of these only gives the JVM's compiler time and is not counted.
 */
final class Harness {
    /** A peer with all rules loaded. */
    interface Loaded {
        /** Match the event of that number, and tell the numbers of the rules that hold. */
        void match(int event, IntConsumer found) throws Exception;
    }

    /** Makes a peer of rules and events. */
    interface Loader {
        Loaded load(List<String> rules, List<String> events) throws Exception;
    }

    private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private static long digest;
    private static long total;

    static void run(String[] arguments, Loader loader) throws Exception {
        List<String> rules = lines(arguments[0]);
        List<String> events = lines(arguments[1]);
        double budget = Double.parseDouble(arguments[3]);
        double before = processor();
        Loaded peer = loader.load(rules, events);
        double build = processor() - before;
        List<Long> counts = new ArrayList<>();
        double began = processor();
        for (int number = 0; number < events.size() && processor() - began < budget / 4; number++) {
            long event = (long) number << 32;
            total = 0;
            peer.match(number, rule -> {
                total++;
                digest += mixed(event | rule);
            });
            counts.add(total);
        }
        List<Double> rounds = new ArrayList<>();
        while (rounds.size() < 6) {
            began = processor();
            long matched = 0;
            while (processor() - began < budget / 8) {
                for (int number = 0; number < counts.size(); number++) {
                    peer.match(number, rule -> total++);
                }
                matched += counts.size();
            }
            rounds.add((processor() - began) * 1e6 / matched);
        }
        rounds.remove(0);
        String result = "{\"build\": %s, \"events\": %d, \"counts\": %s, \"digest\": \"%s\", \"rounds\": %s}";
        Files.writeString(
                Path.of(arguments[2]),
                String.format(result, build, counts.size(), counts, Long.toHexString(digest), rounds));
        System.exit(0);
    }

    private static List<String> lines(String path) throws IOException {
        return Files.readAllLines(Path.of(path));
    }

    /** The seconds of processor time that this process has used so far, its collector and compiler included. */
    private static double processor() {
        return SYSTEM.getProcessCpuTime() / 1e9;
    }

    /** Spreads a number over 64 bits (the finaliser of SplitMix64). */
    private static long mixed(long number) {
        number += 0x9E3779B97F4A7C15L;
        number = (number ^ number >>> 30) * 0xBF58476D1CE4E5B9L;
        number = (number ^ number >>> 27) * 0x94D049BB133111EBL;
        return number ^ number >>> 31;
    }
}
