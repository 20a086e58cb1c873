// hypermatch: rules as its JSON; events read into its properties before anything is timed.
package main

import (
	"encoding/json"

	"bench/harness"

	"github.com/SchwarzIT/hypermatch"
)

type identifiers = []hypermatch.RuleIdentifier

func main() {
	harness.Run(func(rules, events []string) (func(int) identifiers, func(identifiers, func(int))) {
		matcher := hypermatch.NewHyperMatch()
		for number, rule := range rules {
			var conditions hypermatch.ConditionSet
			harness.Check(json.Unmarshal([]byte(rule), &conditions))
			harness.Check(matcher.AddRule(number, conditions))
		}
		properties := make([][]hypermatch.Property, len(events))
		for number, event := range events {
			harness.Check(json.Unmarshal([]byte(event), &properties[number]))
		}
		match := func(event int) identifiers { return matcher.Match(properties[event]) }
		return match, func(answer identifiers, found func(int)) {
			for _, rule := range answer {
				found(rule.(int))
			}
		}
	})
}
