module bench/harness

go 1.21
