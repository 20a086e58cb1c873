// Package harness runs a peer over the rules and events that the bench has written, and writes what it found.
//
// Arguments of every harness: a file of rules, one a line in the peer's own language; a file of events, one a
// line; the file for the result; the seconds of processor time that matching may take. The first round gathers
// the pairs of event and rule and stops after a quarter of the seconds. Five others repeat its events and are
// timed, each for an eighth of the seconds.
package harness

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"syscall"
)

// Result is what the bench reads.
type Result struct {
	Build  float64   `json:"build"`  // seconds of processor time to hold all rules
	Events int       `json:"events"` // how many events were matched
	Counts []int     `json:"counts"` // matches of each
	Digest string    `json:"digest"` // the sum of the mixed pairs, in hexadecimal
	Rounds []float64 `json:"rounds"` // microseconds of processor time an event, one number a round
}

// Run loads a peer and matches. `load` gives two functions: what is timed, which matches the event of that
// number, and one that tells the numbers of the rules in its answer.
func Run[R any](load func(rules, events []string) (match func(event int) R, each func(answer R, found func(rule int)))) {
	rules, events := lines(os.Args[1]), lines(os.Args[2])
	budget, err := strconv.ParseFloat(os.Args[4], 64)
	Check(err)
	before := processor()
	match, each := load(rules, events)
	result := Result{Build: processor() - before}
	var digest uint64
	began := processor()
	for event := range events {
		count := 0
		each(match(event), func(rule int) {
			count++
			digest += mixed(uint64(event)<<32 | uint64(rule))
		})
		result.Counts = append(result.Counts, count)
		if processor()-began > budget/4 {
			break
		}
	}
	result.Events, result.Digest = len(result.Counts), strconv.FormatUint(digest, 16)
	for len(result.Rounds) < 5 {
		began, matched := processor(), 0
		for processor()-began < budget/8 {
			for event := 0; event < result.Events; event++ {
				match(event)
			}
			matched += result.Events
		}
		result.Rounds = append(result.Rounds, (processor()-began)*1e6/float64(matched))
	}
	written, err := json.Marshal(result)
	Check(err)
	Check(os.WriteFile(os.Args[3], written, 0o644))
}

// Check ends the program with the error, if there is one.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}

func lines(path string) []string {
	file, err := os.Open(path)
	Check(err)
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<24)
	var found []string
	for scanner.Scan() {
		found = append(found, scanner.Text())
	}
	Check(scanner.Err())
	return found
}

// processor is the time that this process has used so far, its collector of garbage included.
func processor() float64 {
	var used syscall.Rusage
	Check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// mixed spreads a number over 64 bits (the finaliser of SplitMix64).
func mixed(number uint64) uint64 {
	number += 0x9E3779B97F4A7C15
	number = (number ^ number>>30) * 0xBF58476D1CE4E5B9
	number = (number ^ number>>27) * 0x94D049BB133111EB
	return number ^ number>>31
}
