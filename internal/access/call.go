package access

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/intent"
)

// Call is an RPC, and who may make it.
type Call struct {
	Method protoreflect.MethodDescriptor
	// Role is what it takes, unless it is public.
	Role  intent.Role
	Scope apipb.Scope
	// Field of the request that names the partition, or an incarnation of it.
	Field protoreflect.Name
}

// Name is its full name, for example "lehr.api.v1.BrakeService/SetStop".
func (c Call) Name() string {
	return string(c.Method.Parent().FullName()) + "/" + string(c.Method.Name())
}

// Partition that a request names. Empty, for a call of a partition: all.
func (c Call) Partition(request proto.Message) intent.PartitionID {
	if c.Scope != apipb.Scope_SCOPE_PARTITION {
		return ""
	}
	message := request.ProtoReflect()
	named, _, _ := strings.Cut(message.Get(message.Descriptor().Fields().ByName(c.Field)).String(), "@")
	return intent.PartitionID(named)
}

// roles are the API's words for them.
var roles = map[apipb.Role]intent.Role{
	apipb.Role_ROLE_VIEWER: intent.Viewer, apipb.Role_ROLE_EDITOR: intent.Editor, apipb.Role_ROLE_APPROVER: intent.Approver,
	apipb.Role_ROLE_OPERATOR: intent.Operator, apipb.Role_ROLE_ADMIN: intent.Admin,
}

// FromRole is "" for none.
func FromRole(role apipb.Role) intent.Role { return roles[role] }

// ToRole is the API's word for a role.
func ToRole(role intent.Role) apipb.Role {
	for word, candidate := range roles {
		if candidate == role {
			return word
		}
	}
	return apipb.Role_ROLE_UNSPECIFIED
}

// calls by name, as the descriptors say.
var calls = sync.OnceValue(readCalls)

// Calls lists every RPC of the API, in the order of the services' files.
func Calls() (list []Call) {
	protoregistry.GlobalFiles.RangeFilesByPackage(apipb.File_lehr_api_v1_access_proto.Package(), func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				list = append(list, readCall(methods.Get(j)))
			}
		}
		return true
	})
	return list
}

// CallOf finds an RPC by its full name; false: there is none that says who may
// make it, so nobody may.
func CallOf(name string) (Call, bool) {
	call, ok := calls()[strings.TrimPrefix(name, "/")]
	return call, ok && call.Scope != apipb.Scope_SCOPE_UNSPECIFIED
}

func readCalls() map[string]Call {
	byName := map[string]Call{}
	for _, call := range Calls() {
		byName[call.Name()] = call
	}
	return byName
}

func readCall(method protoreflect.MethodDescriptor) Call {
	option, _ := proto.GetExtension(method.Options(), apipb.E_Access).(*apipb.Access)
	call := Call{Method: method, Role: FromRole(option.GetRole()), Scope: option.GetScope(), Field: protoreflect.Name(option.GetField())}
	if call.Field == "" {
		call.Field = "partition"
	}
	return call
}
