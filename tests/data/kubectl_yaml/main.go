// Prints what kubectl reads in YAML and JSON: for each line of standard input, a JSON object with `text`, the value or the
// values that sigs.k8s.io/yaml and the stream decoder of k8s.io/apimachinery give it. It made vectors.jsonl.gz: build it
// as a main package in tests/e2e/components/karpenter (its go.mod pins both modules), and feed it the lines of that file.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	stream "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

type vector struct {
	Text        string   `json:"text"`
	JSON        string   `json:"json,omitempty"`        // the text as one document
	Error       string   `json:"error,omitempty"`       // why it cannot be read as one document
	Repeated    bool     `json:"repeated,omitempty"`    // a key occurs twice in a mapping; kubectl takes the last one
	Documents   []string `json:"documents,omitempty"`   // the text as a stream, up to the first document that cannot be read
	StreamError string   `json:"streamError,omitempty"` // why that one cannot be read
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var given vector
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			panic(err)
		}
		if err := out.Encode(read(given.Text)); err != nil {
			panic(err)
		}
	}
}

func read(text string) vector {
	found := vector{Text: text}
	if one, err := yaml.YAMLToJSON([]byte(text)); err != nil {
		found.Error = err.Error()
	} else {
		found.JSON = strings.TrimSpace(string(one))
		_, err = yaml.YAMLToJSONStrict([]byte(text))
		found.Repeated = err != nil
	}
	decoder := stream.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var document runtime.RawExtension
		err := decoder.Decode(&document)
		if err == io.EOF {
			return found
		}
		if err != nil {
			found.StreamError = err.Error()
			return found
		}
		if len(document.Raw) > 0 {
			found.Documents = append(found.Documents, string(document.Raw))
		}
	}
}
