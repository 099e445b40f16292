// Prints Karpenter's hash of every EC2NodeClass on standard input, one JSON document {"spec", "caBundle"} a line.
// It made hashes.jsonl.gz from the output of random_specs.py. Build it in a module that requires
// github.com/aws/karpenter-provider-aws v1.14.1.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	fmt.Fprintln(os.Stderr, v1.EC2NodeClassHashVersion)
	for lines.Scan() {
		var class v1.EC2NodeClass
		var given struct {
			CABundle *string `json:"caBundle"`
		}
		if err := json.Unmarshal(lines.Bytes(), &class); err != nil {
			panic(err)
		}
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			panic(err)
		}
		fmt.Println(class.Hash(given.CABundle))
	}
}
