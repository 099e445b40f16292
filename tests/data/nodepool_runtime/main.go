// Prints what Karpenter's runtime validation says about every NodePool on standard input, one JSON document a line. It made
// verdicts.jsonl.gz: build it as a main package in tests/e2e/components/karpenter (its go.mod pins Karpenter's version), and
// feed it the `template` of each line of that file as {"spec": {"template": ...}}.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var pool v1.NodePool
		if err := json.Unmarshal(lines.Bytes(), &pool); err != nil {
			panic(err)
		}
		message := ""
		if err := pool.RuntimeValidate(context.Background()); err != nil {
			message = err.Error()
		}
		if err := out.Encode(message); err != nil {
			panic(err)
		}
	}
}
