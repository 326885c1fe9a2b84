package server

import (
	"errors"
	"fmt"
	"regexp"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON refuses fields that it does not know, where connect's own codec
// passes over them: a misspelt filter would list all, and a misspelt partition
// would resume all.
type strictJSON struct{ name string }

func strictly() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(strictJSON{"json"}),
		connect.WithCodec(strictJSON{"json; charset=utf-8"}),
	)
}

func (c strictJSON) Name() string { return c.name }

func (strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", message)
	}
	return protojson.Marshal(m)
}

// place is how protojson says where it was. Its spaces are ordinary ones in
// some builds and ones that do not break in others.
var place = regexp.MustCompile(`^proto:[\s\x{a0}]*(?:syntax error[\s\x{a0}]*)?\(line (\d+):(\d+)\):[\s\x{a0}]*`)

func (strictJSON) Unmarshal(text []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", message)
	}
	if len(text) == 0 {
		return errors.New("there is none: the least is {}")
	}
	err := protojson.Unmarshal(text, m)
	if err == nil {
		return nil
	}
	reason := place.ReplaceAllString(err.Error(), "line $1, column $2: ")
	return fmt.Errorf("a %s in JSON: %s", m.ProtoReflect().Descriptor().Name(), reason)
}
