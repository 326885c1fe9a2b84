package kubeobject

import (
	"fmt"
	"strconv"
	"strings"

	"lehr.dev/sdk/serve"
)

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// outputs are the values that intent has the object tell, as the cluster has them. What is
// not there yet is not told, and nothing is told of a Secret.
func (l *look) outputs() ([]serve.Output, error) {
	if len(l.payload.Outputs) == 0 || l.live == nil {
		return nil, nil
	}
	if l.payload.Kind == "Secret" && l.payload.ApiVersion == "v1" {
		return nil, fmt.Errorf("%s is to tell outputs, and none is told of a Secret: take them out", l.asset.ID)
	}
	values := map[string]any{}
	for name, pointer := range l.payload.Outputs {
		if !strings.HasPrefix(pointer, "/") {
			return nil, fmt.Errorf("the output %s of %s is to be at %q, which is no JSON pointer: it begins with /", name, l.asset.ID, pointer)
		}
		if value, ok := valueAt(l.live.Object, strings.Split(pointer[1:], "/")); ok && value != nil {
			values[name] = value
		}
	}
	return serve.EncodeOutputs(values)
}

// valueAt is what is at the parts of a JSON pointer.
func valueAt(value any, parts []string) (any, bool) {
	for _, part := range parts {
		switch v := value.(type) {
		case map[string]any:
			next, ok := v[unescapePointer.Replace(part)]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			at, err := strconv.Atoi(part)
			if err != nil || at < 0 || at >= len(v) {
				return nil, false
			}
			value = v[at]
		default:
			return nil, false
		}
	}
	return value, true
}
