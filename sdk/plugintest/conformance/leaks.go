package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"
)

// leaks looks for the values of secrets in all that a plugin sends and writes.
type leaks struct {
	mutex  sync.Mutex
	values [][]byte
	// found is where one was found first; empty: nowhere.
	found string
}

// add has a value looked for from now on, as it is, in base64 and in hex.
func (k *leaks) add(value []byte) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	// Only the digits that no neighbour of the value changes.
	encoded := base64.StdEncoding.EncodeToString(value[:len(value)/3*3])
	k.values = append(k.values, bytes.Clone(value), []byte(encoded), []byte(hex.EncodeToString(value)))
}

// lookIn looks at a message.
func (k *leaks) lookIn(place string, message proto.Message) {
	k.mutex.Lock()
	isNeeded := len(k.values) > 0
	k.mutex.Unlock()
	if !isNeeded {
		return
	}
	content, err := proto.Marshal(message)
	if err == nil {
		k.lookAt(place, content)
	}
}

// lookAt looks at content. A nil k looks at nothing.
func (k *leaks) lookAt(place string, content []byte) {
	if k == nil {
		return
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, value := range k.values {
		if k.found == "" && bytes.Contains(content, value) {
			k.found = place
		}
	}
}

// judge returns where a value was found.
func (k *leaks) judge() error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.found != "" {
		return errors.New("the value of a secret is in " + k.found)
	}
	return nil
}
