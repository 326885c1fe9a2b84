package server

import (
	"testing"

	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// FuzzRequest: a request in JSON is refused, or is what it says.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{`{}`, `{"partition":"a","filter":"id == \"b\"","limit":5}`, `{"limit":1e400}`, `{"partition":"a","partition":"b"}`, `[[[[`, `{"partition":"\ud800"}`, "", `null`} {
		f.Add([]byte(seed))
	}
	codec := strictJSON{"json"}
	f.Fuzz(func(t *testing.T, text []byte) {
		request, again := &apipb.ListAssetsRequest{}, &apipb.ListAssetsRequest{}
		if codec.Unmarshal(text, request) != nil {
			return
		}
		written, err := codec.Marshal(request)
		if err == nil {
			err = codec.Unmarshal(written, again)
		}
		if err != nil || !proto.Equal(request, again) {
			t.Errorf("%s is %v, then %v: %v", text, request, again, err)
		}
	})
}
