package main

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// annotation is the option that says who may call.
const annotation = "lehr.api.v1.access"

// checkAccess refuses an API file with a call that does not say who may make
// it, or names a field that its request does not have. It reads the option from
// the file itself: the generated code may not be there yet.
func checkAccess(file protoreflect.FileDescriptor) error {
	if !strings.HasPrefix(file.Path(), "lehr/api/") {
		return nil
	}
	for i := range file.Services().Len() {
		methods := file.Services().Get(i).Methods()
		for j := range methods.Len() {
			if err := checkMethod(methods.Get(j)); err != nil {
				return fmt.Errorf("%s: %s: %w", file.Path(), methods.Get(j).FullName(), err)
			}
		}
	}
	return nil
}

func checkMethod(method protoreflect.MethodDescriptor) error {
	role, scope, field := accessOf(method)
	switch {
	case scope == "" || scope == "SCOPE_UNSPECIFIED":
		return fmt.Errorf("it does not say who may call it: add option (access) = {role: ROLE_…, scope: SCOPE_…}")
	case (role == "" || role == "ROLE_UNSPECIFIED") != (scope == "SCOPE_PUBLIC"):
		return fmt.Errorf("a public call has no role, and every other has one")
	case scope != "SCOPE_PARTITION" && field != "":
		return fmt.Errorf("it names the field %q, and is of no partition", field)
	case scope != "SCOPE_PARTITION":
		return nil
	case field == "":
		field = "partition"
	}
	named := method.Input().Fields().ByName(protoreflect.Name(field))
	if named == nil || named.Kind() != protoreflect.StringKind || named.IsList() {
		return fmt.Errorf("%s has no text field %q that could name the partition", method.Input().FullName(), field)
	}
	return nil
}

// accessOf reads the annotation's role, scope and field.
func accessOf(method protoreflect.MethodDescriptor) (role, scope, field string) {
	method.Options().(*descriptorpb.MethodOptions).ProtoReflect().Range(func(option protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if option.FullName() == annotation {
			role, scope, field = parts(value.Message())
		}
		return true
	})
	return role, scope, field
}

func parts(message protoreflect.Message) (role, scope, field string) {
	name := func(field protoreflect.Name) string {
		descriptor := message.Descriptor().Fields().ByName(field)
		number := message.Get(descriptor).Enum()
		if value := descriptor.Enum().Values().ByNumber(number); value != nil {
			return string(value.Name())
		}
		return ""
	}
	return name("role"), name("scope"), message.Get(message.Descriptor().Fields().ByName("field")).String()
}
