// The subject lists of NATS: the server's Sublist, with its cache and without, and the generic one (gsl).
//
// What a Sublist holds has no public constructor, so its subscriptions are made by reflection, before
// anything is timed; the answers are read by reflection too, in the round that is not timed.
package main

import (
	"os"
	"reflect"
	"strconv"
	"unsafe"

	"bench/harness"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/gsl"
)

func main() {
	switch os.Args[5] {
	case "gsl":
		harness.Run(generic)
	case "cache":
		harness.Run(func(rules, events []string) (func(int) *server.SublistResult, func(*server.SublistResult, func(int))) {
			return sublist(server.NewSublistWithCache(), rules, events)
		})
	default:
		harness.Run(func(rules, events []string) (func(int) *server.SublistResult, func(*server.SublistResult, func(int))) {
			return sublist(server.NewSublistNoCache(), rules, events)
		})
	}
}

func generic(rules, events []string) (func(int) []int, func([]int, func(int))) {
	list := gsl.NewSublist[int]()
	for number, rule := range rules {
		harness.Check(list.Insert(rule, number))
	}
	var answer []int
	gather := func(rule int) { answer = append(answer, rule) }
	match := func(event int) []int {
		answer = answer[:0]
		list.Match(events[event], gather)
		return answer
	}
	return match, func(answer []int, found func(int)) {
		for _, rule := range answer {
			found(rule)
		}
	}
}

func sublist(list *server.Sublist, rules, events []string) (func(int) *server.SublistResult, func(*server.SublistResult, func(int))) {
	insert := reflect.ValueOf(list).MethodByName("Insert")
	kind := insert.Type().In(0).Elem()
	for number, rule := range rules {
		subscription := reflect.New(kind)
		assign(subscription, "subject", []byte(rule))
		assign(subscription, "sid", []byte(strconv.Itoa(number)))
		if failed := insert.Call([]reflect.Value{subscription})[0]; !failed.IsNil() {
			panic(failed.Interface())
		}
	}
	match := func(event int) *server.SublistResult { return list.Match(events[event]) }
	return match, func(answer *server.SublistResult, found func(int)) {
		held := reflect.ValueOf(answer).Elem().FieldByName("psubs")
		for place := 0; place < held.Len(); place++ {
			rule, err := strconv.Atoi(string(held.Index(place).Elem().FieldByName("sid").Bytes()))
			harness.Check(err)
			found(rule)
		}
	}
}

func assign(pointer reflect.Value, name string, value []byte) {
	field := pointer.Elem().FieldByName(name)
	*(*[]byte)(unsafe.Pointer(field.UnsafeAddr())) = value
}
