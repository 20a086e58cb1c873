// Package harness runs a peer over the rules and events that the bench has written, and writes what it found.
//
// Arguments of every harness: a file of rules, one a line in the peer's own language; a file of events, one a
// line; the file for the result; the seconds that all rounds together may take. The first round gathers the
// pairs of event and rule and stops after a third of the seconds; the others repeat its events and are timed.
package harness

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"syscall"
	"time"
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
	began := time.Now()
	for event := range events {
		count := 0
		each(match(event), func(rule int) {
			count++
			digest += mixed(uint64(event)<<32 | uint64(rule))
		})
		result.Counts = append(result.Counts, count)
		if time.Since(began).Seconds() > budget/3 {
			break
		}
	}
	result.Events, result.Digest = len(result.Counts), strconv.FormatUint(digest, 16)
	for len(result.Rounds) < 3 || (len(result.Rounds) < 7 && time.Since(began).Seconds() < budget) {
		before := processor()
		for event := 0; event < result.Events; event++ {
			match(event)
		}
		result.Rounds = append(result.Rounds, (processor()-before)*1e6/float64(result.Events))
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
