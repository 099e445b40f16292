// Command decode tells whether Karpenter's v1 types can decode objects.
//
// It reads one JSON object a line and answers each with one line: "ok", or the error. It decodes as the clients of the
// API machinery do: case-sensitive, unknown fields are ignored, a value of the wrong type is an error. Such an error
// fails the whole list or watch of a controller, not only the one object.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	aws "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/util/json"
	kwok "sigs.k8s.io/karpenter/kwok/apis/v1alpha1"
	core "sigs.k8s.io/karpenter/pkg/apis/v1"

	kjson "sigs.k8s.io/json"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	answers := bufio.NewWriter(os.Stdout)
	defer answers.Flush()
	for lines.Scan() {
		answer := "ok"
		if err := decode(lines.Bytes()); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Fprintln(answers, answer)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func decode(line []byte) error {
	var about struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &about); err != nil {
		return err
	}
	var object any
	switch about.Kind {
	case "NodePool":
		object = &core.NodePool{}
	case "NodeClaim":
		object = &core.NodeClaim{}
	case "EC2NodeClass":
		object = &aws.EC2NodeClass{}
	case "KWOKNodeClass":
		object = &kwok.KWOKNodeClass{}
	default:
		return fmt.Errorf("unknown kind %q", about.Kind)
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(line, object)
}
