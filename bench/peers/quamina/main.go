// quamina: patterns and events as JSON, flattened by its own reader.
package main

import (
	"bench/harness"

	"quamina.net/go/quamina/v2"
)

func main() {
	harness.Run(func(rules, events []string) (func(int) []quamina.X, func([]quamina.X, func(int))) {
		matcher, err := quamina.New()
		harness.Check(err)
		for number, rule := range rules {
			harness.Check(matcher.AddPattern(number, rule))
		}
		texts := make([][]byte, len(events))
		for number, event := range events {
			texts[number] = []byte(event)
		}
		match := func(event int) []quamina.X {
			found, err := matcher.MatchesForEvent(texts[event])
			harness.Check(err)
			return found
		}
		return match, func(answer []quamina.X, found func(int)) {
			for _, rule := range answer {
				found(rule.(int))
			}
		}
	})
}
