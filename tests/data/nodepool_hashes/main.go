// Prints Karpenter's hash of every NodePool on standard input, one JSON document a line. It made hashes.jsonl.gz:
// build it as a main package in tests/e2e/components/karpenter (its go.mod pins Karpenter's version).
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var pool v1.NodePool
		if err := json.Unmarshal(lines.Bytes(), &pool); err != nil {
			panic(err)
		}
		fmt.Println(pool.Hash())
	}
}
