"""LLVM IR of the launch stub: a repeated launch in native code, written against CPython's C API.

``same`` compares an argument with a snapshot, types included (so ``3.0`` is not ``3``). ``run``
checks the pointers of a call against a plan's record, packs the arguments on the stack and calls
the kernel; whatever it does not recognise is a miss (null without an error), and the plain Python
function takes the call. Only exact built-in types are touched, so no Python code can run in
between.

Record, one a plan (byte offsets)::

     0 kernel   8 context  16 estimate  24 limit   (pointer to the expected ticks; their limit)
    32 buffers  36 bytes   40 pairs     44 slots   (counts; bytes of packed arguments)
    48 -> packed arguments with the scalars in place
    56 -> slots  {i32 buffer, i32 offset in the packed arguments, i64 added to the pointer}
    64 -> masks  {i64} a buffer: bits of the pointer that must be 0
    72 -> pairs  {i32 output, i32 other, i64 most, i64 least}: fine if output - other is >= most
          or <= least
    80 on_fault, a Python callable that takes the status
"""

from __future__ import annotations

MAX_BUFFERS = 16
MAX_ARGS = 512
RECORD_BYTES = 88

STUB_IR = r"""
@PyLong_Type = external global i8
@PyDict_Type = external global i8
@PyList_Type = external global i8
@PyTuple_Type = external global i8
@PyFloat_Type = external global i8
@PyUnicode_Type = external global i8

declare double @PyFloat_AsDouble(ptr)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyDict_Size(ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare ptr @PyLong_FromLong(i64)
declare void @PyErr_Clear()
declare ptr @PyObject_VectorcallDict(ptr, ptr, i64, ptr)
declare void @Py_DecRef(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @type_of(ptr %object) alwaysinline {
  %at = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %at
  ret ptr %type
}

define internal i1 @same(ptr %a, ptr %b) {
  %one = icmp eq ptr %a, %b
  br i1 %one, label %yes, label %types
types:
  %ta = call ptr @type_of(ptr %a)
  %tb = call ptr @type_of(ptr %b)
  %alike = icmp eq ptr %ta, %tb
  br i1 %alike, label %kind, label %no
kind:
  %is_dict = icmp eq ptr %ta, @PyDict_Type
  br i1 %is_dict, label %dict, label %not_dict
not_dict:
  %is_list = icmp eq ptr %ta, @PyList_Type
  br i1 %is_list, label %list, label %not_list
not_list:
  %is_tuple = icmp eq ptr %ta, @PyTuple_Type
  br i1 %is_tuple, label %tuple, label %leaf
leaf:
  %is_int = icmp eq ptr %ta, @PyLong_Type
  %is_str = icmp eq ptr %ta, @PyUnicode_Type
  %is_plain = or i1 %is_int, %is_str
  br i1 %is_plain, label %plain, label %not_plain
plain:
  %equal = call i32 @PyObject_RichCompareBool(ptr %a, ptr %b, i32 2)
  %is_equal = icmp eq i32 %equal, 1
  ret i1 %is_equal
not_plain:
  %is_float = icmp eq ptr %ta, @PyFloat_Type
  br i1 %is_float, label %float, label %no
float:
  ; by bits: 0.0 is not -0.0, and a nan is itself
  %fa = call double @PyFloat_AsDouble(ptr %a)
  %fb = call double @PyFloat_AsDouble(ptr %b)
  %bits_a = bitcast double %fa to i64
  %bits_b = bitcast double %fb to i64
  %f_equal = icmp eq i64 %bits_a, %bits_b
  ret i1 %f_equal
dict:
  ; in step, keys compared as they come: a lookup could run the code of foreign keys
  %da = call i64 @PyDict_Size(ptr %a)
  %db = call i64 @PyDict_Size(ptr %b)
  %d_same = icmp eq i64 %da, %db
  br i1 %d_same, label %dict_start, label %no
dict_start:
  %at_a = alloca i64
  %at_b = alloca i64
  %key_a = alloca ptr
  %key_b = alloca ptr
  %value_a = alloca ptr
  %value_b = alloca ptr
  store i64 0, ptr %at_a
  store i64 0, ptr %at_b
  br label %dict_next
dict_next:
  %more_b = call i32 @PyDict_Next(ptr %b, ptr %at_b, ptr %key_b, ptr %value_b)
  %has_b = icmp ne i32 %more_b, 0
  br i1 %has_b, label %dict_other, label %yes
dict_other:
  %more_a = call i32 @PyDict_Next(ptr %a, ptr %at_a, ptr %key_a, ptr %value_a)
  %has_a = icmp ne i32 %more_a, 0
  br i1 %has_a, label %dict_key, label %no
dict_key:
  %ka = load ptr, ptr %key_a
  %kb = load ptr, ptr %key_b
  %k_equal = call i1 @same(ptr %ka, ptr %kb)
  br i1 %k_equal, label %dict_value, label %no
dict_value:
  %va = load ptr, ptr %value_a
  %vb = load ptr, ptr %value_b
  %d_equal = call i1 @same(ptr %va, ptr %vb)
  br i1 %d_equal, label %dict_next, label %no
list:
  %la = call i64 @PyList_Size(ptr %a)
  %lb = call i64 @PyList_Size(ptr %b)
  %l_same = icmp eq i64 %la, %lb
  br i1 %l_same, label %list_next, label %no
list_next:
  %li = phi i64 [ 0, %list ], [ %li_next, %list_item ]
  %l_more = icmp slt i64 %li, %la
  br i1 %l_more, label %list_item, label %yes
list_item:
  %lx = call ptr @PyList_GetItem(ptr %a, i64 %li)
  %ly = call ptr @PyList_GetItem(ptr %b, i64 %li)
  %li_next = add i64 %li, 1
  %l_equal = call i1 @same(ptr %lx, ptr %ly)
  br i1 %l_equal, label %list_next, label %no
tuple:
  %na = call i64 @PyTuple_Size(ptr %a)
  %nb = call i64 @PyTuple_Size(ptr %b)
  %t_same = icmp eq i64 %na, %nb
  br i1 %t_same, label %tuple_next, label %no
tuple_next:
  %ti = phi i64 [ 0, %tuple ], [ %ti_next, %tuple_item ]
  %t_more = icmp slt i64 %ti, %na
  br i1 %t_more, label %tuple_item, label %yes
tuple_item:
  %tx = call ptr @PyTuple_GetItem(ptr %a, i64 %ti)
  %ty = call ptr @PyTuple_GetItem(ptr %b, i64 %ti)
  %ti_next = add i64 %ti, 1
  %t_equal = call i1 @same(ptr %tx, ptr %ty)
  br i1 %t_equal, label %tuple_next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define internal ptr @run(ptr %record, ptr %buffers) {
  %values = alloca [16 x i64], align 16
  %packed = alloca [512 x i8], align 64
  %type = call ptr @type_of(ptr %buffers)
  %is_list = icmp eq ptr %type, @PyList_Type
  br i1 %is_list, label %length, label %miss
length:
  %have = call i64 @PyList_Size(ptr %buffers)
  %count_at = getelementptr i8, ptr %record, i64 32
  %count32 = load i32, ptr %count_at
  %count = zext i32 %count32 to i64
  %right = icmp eq i64 %have, %count
  br i1 %right, label %start, label %miss
start:
  %masks_at = getelementptr i8, ptr %record, i64 64
  %masks = load ptr, ptr %masks_at
  br label %buffer
buffer:
  %i = phi i64 [ 0, %start ], [ %i_next, %good ]
  %object = call ptr @PyList_GetItem(ptr %buffers, i64 %i)
  %object_type = call ptr @type_of(ptr %object)
  %is_int = icmp eq ptr %object_type, @PyLong_Type
  br i1 %is_int, label %number, label %miss
number:
  %value = call i64 @PyLong_AsUnsignedLongLong(ptr %object)
  %failed = icmp eq i64 %value, -1
  br i1 %failed, label %clear, label %range
clear:
  call void @PyErr_Clear()
  br label %miss
range:
  %positive = icmp sgt i64 %value, 0
  br i1 %positive, label %align, label %miss
align:
  %mask_at = getelementptr i64, ptr %masks, i64 %i
  %mask = load i64, ptr %mask_at
  %low = and i64 %value, %mask
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %good, label %miss
good:
  %value_at = getelementptr i64, ptr %values, i64 %i
  store i64 %value, ptr %value_at
  %i_next = add i64 %i, 1
  %more = icmp ult i64 %i_next, %count
  br i1 %more, label %buffer, label %overlap
overlap:
  %pairs_at = getelementptr i8, ptr %record, i64 40
  %pairs = load i32, ptr %pairs_at
  %pair_list_at = getelementptr i8, ptr %record, i64 72
  %pair_list = load ptr, ptr %pair_list_at
  br label %pair_next
pair_next:
  %p = phi i32 [ 0, %overlap ], [ %p_next, %pair ]
  %pair_more = icmp ult i32 %p, %pairs
  br i1 %pair_more, label %pair, label %work
pair:
  %p64 = zext i32 %p to i64
  %pair_at = getelementptr { i32, i32, i64, i64 }, ptr %pair_list, i64 %p64
  %entry = load { i32, i32, i64, i64 }, ptr %pair_at
  %out = extractvalue { i32, i32, i64, i64 } %entry, 0
  %other = extractvalue { i32, i32, i64, i64 } %entry, 1
  %most = extractvalue { i32, i32, i64, i64 } %entry, 2
  %least = extractvalue { i32, i32, i64, i64 } %entry, 3
  %out_at = getelementptr i64, ptr %values, i32 %out
  %other_at = getelementptr i64, ptr %values, i32 %other
  %out_value = load i64, ptr %out_at
  %other_value = load i64, ptr %other_at
  %distance = sub i64 %out_value, %other_value
  %behind = icmp sge i64 %distance, %most
  %before = icmp sle i64 %distance, %least
  %apart = or i1 %behind, %before
  %p_next = add i32 %p, 1
  br i1 %apart, label %pair_next, label %miss
work:
  %estimate_at_at = getelementptr i8, ptr %record, i64 16
  %estimate_at = load ptr, ptr %estimate_at_at
  %estimate = load i64, ptr %estimate_at
  %limit_at = getelementptr i8, ptr %record, i64 24
  %limit = load i64, ptr %limit_at
  %short = icmp ult i64 %estimate, %limit
  br i1 %short, label %pack, label %miss
pack:
  %bytes_at = getelementptr i8, ptr %record, i64 36
  %bytes32 = load i32, ptr %bytes_at
  %bytes = zext i32 %bytes32 to i64
  %image_at = getelementptr i8, ptr %record, i64 48
  %image = load ptr, ptr %image_at
  call void @llvm.memcpy.p0.p0.i64(ptr %packed, ptr %image, i64 %bytes, i1 false)
  %slots_at = getelementptr i8, ptr %record, i64 44
  %slots = load i32, ptr %slots_at
  %slot_list_at = getelementptr i8, ptr %record, i64 56
  %slot_list = load ptr, ptr %slot_list_at
  br label %slot_next
slot_next:
  %s = phi i32 [ 0, %pack ], [ %s_next, %slot ]
  %slot_more = icmp ult i32 %s, %slots
  br i1 %slot_more, label %slot, label %call
slot:
  %s64 = zext i32 %s to i64
  %slot_at = getelementptr { i32, i32, i64 }, ptr %slot_list, i64 %s64
  %slot_entry = load { i32, i32, i64 }, ptr %slot_at
  %index = extractvalue { i32, i32, i64 } %slot_entry, 0
  %place = extractvalue { i32, i32, i64 } %slot_entry, 1
  %added = extractvalue { i32, i32, i64 } %slot_entry, 2
  %base_at = getelementptr i64, ptr %values, i32 %index
  %base = load i64, ptr %base_at
  %pointer = add i64 %base, %added
  %target = getelementptr i8, ptr %packed, i32 %place
  store i64 %pointer, ptr %target
  %s_next = add i32 %s, 1
  br label %slot_next
call:
  %kernel = load ptr, ptr %record
  %context_at = getelementptr i8, ptr %record, i64 8
  %context = load ptr, ptr %context_at
  %status = call i32 %kernel(ptr %context, ptr %packed)
  %done = icmp eq i32 %status, 0
  br i1 %done, label %ok, label %fault
ok:
  %zero = call ptr @PyLong_FromLong(i64 0)
  ret ptr %zero
fault:
  %status64 = sext i32 %status to i64
  %status_object = call ptr @PyLong_FromLong(i64 %status64)
  %fault_args = alloca ptr
  store ptr %status_object, ptr %fault_args
  %on_fault_at = getelementptr i8, ptr %record, i64 80
  %on_fault = load ptr, ptr %on_fault_at
  %answer = call ptr @PyObject_VectorcallDict(ptr %on_fault, ptr %fault_args, i64 1, ptr null)
  call void @Py_DecRef(ptr %status_object)
  ret ptr %answer
miss:
  ret ptr null
}

; self is (record address, slow callable, 0): plan(buffers, stream=0)
define ptr @ge2rt_plan(ptr %self, ptr %args, i64 %given) {
  %one = icmp eq i64 %given, 1
  br i1 %one, label %fast, label %two
two:
  %is_two = icmp eq i64 %given, 2
  br i1 %is_two, label %stream, label %slow
stream:
  %stream_at = getelementptr ptr, ptr %args, i64 1
  %stream_object = load ptr, ptr %stream_at
  %zero = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %default = icmp eq ptr %stream_object, %zero
  br i1 %default, label %fast, label %slow
fast:
  %address = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %record64 = call i64 @PyLong_AsUnsignedLongLong(ptr %address)
  %record = inttoptr i64 %record64 to ptr
  %buffers = load ptr, ptr %args
  %answer = call ptr @run(ptr %record, ptr %buffers)
  %missed = icmp eq ptr %answer, null
  br i1 %missed, label %why, label %done
why:
  %error = call ptr @PyErr_Occurred()
  %clean = icmp eq ptr %error, null
  br i1 %clean, label %slow, label %done
done:
  ret ptr %answer
slow:
  %python = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %result = call ptr @PyObject_VectorcallDict(ptr %python, ptr %args, i64 %given, ptr null)
  ret ptr %result
}

declare ptr @PyErr_Occurred()

; self is (recent, slow callable, 0), recent: {name: (snapshot, record address, ...)}
define ptr @ge2rt_launch(ptr %self, ptr %args, i64 %given) {
  %four = icmp eq i64 %given, 4
  br i1 %four, label %stream, label %three
three:
  %is_three = icmp eq i64 %given, 3
  br i1 %is_three, label %find, label %slow
stream:
  %stream_at = getelementptr ptr, ptr %args, i64 3
  %stream_object = load ptr, ptr %stream_at
  %zero = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %default = icmp eq ptr %stream_object, %zero
  br i1 %default, label %find, label %slow
find:
  %name = load ptr, ptr %args
  %name_type = call ptr @type_of(ptr %name)
  %is_str = icmp eq ptr %name_type, @PyUnicode_Type
  br i1 %is_str, label %look, label %slow
look:
  %recent = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %entries = call ptr @PyDict_GetItemWithError(ptr %recent, ptr %name)
  %unknown = icmp eq ptr %entries, null
  br i1 %unknown, label %slow, label %walk
walk:
  %descs_at = getelementptr ptr, ptr %args, i64 2
  %descs = load ptr, ptr %descs_at
  %count = call i64 @PyTuple_Size(ptr %entries)
  br label %next
next:
  %i = phi i64 [ 0, %walk ], [ %i_next, %entry ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %entry, label %slow
entry:
  %snapshot = call ptr @PyTuple_GetItem(ptr %entries, i64 %i)
  %equal = call i1 @same(ptr %descs, ptr %snapshot)
  %i_next = add i64 %i, 2
  br i1 %equal, label %hit, label %next
hit:
  %record_index = add i64 %i, 1
  %address = call ptr @PyTuple_GetItem(ptr %entries, i64 %record_index)
  %record64 = call i64 @PyLong_AsUnsignedLongLong(ptr %address)
  %record = inttoptr i64 %record64 to ptr
  %buffers_at = getelementptr ptr, ptr %args, i64 1
  %buffers = load ptr, ptr %buffers_at
  %answer = call ptr @run(ptr %record, ptr %buffers)
  %missed = icmp eq ptr %answer, null
  br i1 %missed, label %why, label %done
why:
  %error = call ptr @PyErr_Occurred()
  %clean = icmp eq ptr %error, null
  br i1 %clean, label %slow, label %done
done:
  ret ptr %answer
slow:
  %python = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %result = call ptr @PyObject_VectorcallDict(ptr %python, ptr %args, i64 %given, ptr null)
  ret ptr %result
}
"""
