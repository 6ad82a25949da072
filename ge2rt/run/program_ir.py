"""LLVM IR of whole programs: many launches in one native call, and calls on NumPy arrays.

``ge2rt_row`` is a built-in function that runs steps over a list of base addresses. ``ge2rt_call``
is one of arrays: it compares each with what the program was compiled for (by the fields of NumPy's
array objects), makes the outputs, runs the steps and returns the outputs; what it does not
recognise goes to the Python function behind it. Joined to the launch stub
(:mod:`ge2rt.run.stub_ir`), whose declarations it uses.

Step, 48 bytes::

     0 kernel   8 context  16 -> packed arguments with the scalars in place
    24 -> slots {i32 base, i32 offset in the packed arguments, i64 added to the base}
    32 bytes of packed arguments (i32)  36 slots (i32)  40 -> expected ticks

Call record, 8 bytes an entry::

     0 inputs     8 outputs    16 bases     24 -> inputs     32 -> outputs   40 -> initial bases
    48 -> steps  56 steps      64 busy      72 exclusive     80 single       88 np.empty
    96 ndarray  104 on_fault  112 limit    120 -> flags     128 bytes of flags
   136 PyArray_NewFromDescr, or 0: outputs are made by np.empty

Input, 48 bytes: dtype object, rank, -> extents, -> byte strides, mask of the address, base.
Output, 40 bytes: shape object, dtype object, base, rank, -> extents. ``exclusive`` programs
use memory of their own: a call that comes while another one is ``busy`` goes to Python.

``ge2rt_dispatch`` is a built-in function that asks several such functions in turn.
"""

from __future__ import annotations

from string import Template

MAX_PROGRAM_ARGS = 4096
STEP_BYTES = 48
CALL_WORDS = 18

_PROGRAM = r"""
; 0, or (number of the step + 1) << 32 | status, or -1 with the exception of a signal handler set
define internal i64 @ge2rt_steps(ptr %steps, i64 %count, ptr %bases, i64 %poll) {
  %packed = alloca [$MAX_ARGS x i8], align 64
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %i_next, %ok ], [ %i_next, %looked ]
  %ticks = phi i64 [ 0, %0 ], [ %ticks_next, %ok ], [ 0, %looked ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %step, label %done
step:
  %at = getelementptr [48 x i8], ptr %steps, i64 %i
  %kernel = load ptr, ptr %at
  %context_at = getelementptr i8, ptr %at, i64 8
  %context = load ptr, ptr %context_at
  %image_at = getelementptr i8, ptr %at, i64 16
  %image = load ptr, ptr %image_at
  %slots_at = getelementptr i8, ptr %at, i64 24
  %slots = load ptr, ptr %slots_at
  %bytes_at = getelementptr i8, ptr %at, i64 32
  %bytes32 = load i32, ptr %bytes_at
  %bytes = zext i32 %bytes32 to i64
  %slot_count_at = getelementptr i8, ptr %at, i64 36
  %slot_count = load i32, ptr %slot_count_at
  call void @llvm.memcpy.p0.p0.i64(ptr %packed, ptr %image, i64 %bytes, i1 false)
  br label %slot_next
slot_next:
  %s = phi i32 [ 0, %step ], [ %s_next, %slot ]
  %slot_more = icmp ult i32 %s, %slot_count
  br i1 %slot_more, label %slot, label %call
slot:
  %s64 = zext i32 %s to i64
  %slot_at = getelementptr { i32, i32, i64 }, ptr %slots, i64 %s64
  %entry = load { i32, i32, i64 }, ptr %slot_at
  %index = extractvalue { i32, i32, i64 } %entry, 0
  %place = extractvalue { i32, i32, i64 } %entry, 1
  %added = extractvalue { i32, i32, i64 } %entry, 2
  %base_at = getelementptr i64, ptr %bases, i32 %index
  %base = load i64, ptr %base_at
  %pointer = add i64 %base, %added
  %target = getelementptr i8, ptr %packed, i32 %place
  store i64 %pointer, ptr %target
  %s_next = add i32 %s, 1
  br label %slot_next
call:
  %status = call i32 %kernel(ptr %context, ptr %packed)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %ok, label %fault
ok:
  ; a launch looks for signals itself only if it takes long: many short ones do it together
  %i_next = add i64 %i, 1
  %estimate_at_at = getelementptr i8, ptr %at, i64 40
  %estimate_at = load ptr, ptr %estimate_at_at
  %estimate = load i64, ptr %estimate_at
  %ticks_next = add i64 %ticks, %estimate
  %due = icmp sgt i64 %ticks_next, %poll
  br i1 %due, label %look, label %next
look:
  %state = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  %quiet = icmp eq i32 %raised, 0
  br i1 %quiet, label %looked, label %signal
looked:
  br label %next
signal:
  ret i64 -1
fault:
  %number = add i64 %i, 1
  %high = shl i64 %number, 32
  %low = zext i32 %status to i64
  %both = or i64 %high, %low
  ret i64 %both
done:
  ret i64 0
}

; the sum of the steps' expected ticks, or -1 where one is not known
define internal i64 @ge2rt_expected(ptr %steps, i64 %count) {
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %i_next, %known ]
  %sum = phi i64 [ 0, %0 ], [ %sum_next, %known ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %step, label %done
step:
  %at = getelementptr [48 x i8], ptr %steps, i64 %i
  %estimate_at_at = getelementptr i8, ptr %at, i64 40
  %estimate_at = load ptr, ptr %estimate_at_at
  %estimate = load i64, ptr %estimate_at
  %negative = icmp slt i64 %estimate, 0
  br i1 %negative, label %unknown, label %known
known:
  %sum_next = add i64 %sum, %estimate
  %i_next = add i64 %i, 1
  br label %next
unknown:
  ret i64 -1
done:
  ret i64 %sum
}

; whether an object is the array that an input record describes
define internal i1 @ge2rt_fits(ptr %object, ptr %input, ptr %ndarray) {
  %type = call ptr @type_of(ptr %object)
  %is_array = icmp eq ptr %type, %ndarray
  br i1 %is_array, label %dtype, label %no
dtype:
  %descr_at = getelementptr i8, ptr %object, i64 $DESCR
  %descr = load ptr, ptr %descr_at
  %want_descr = load ptr, ptr %input
  %same_descr = icmp eq ptr %descr, %want_descr
  br i1 %same_descr, label %rank, label %no
rank:
  %rank_at = getelementptr i8, ptr %object, i64 $RANK
  %rank32 = load i32, ptr %rank_at
  %axes_have = sext i32 %rank32 to i64
  %want_rank_at = getelementptr i8, ptr %input, i64 8
  %want_rank = load i64, ptr %want_rank_at
  %same_rank = icmp eq i64 %axes_have, %want_rank
  br i1 %same_rank, label %align, label %no
align:
  %data_at = getelementptr i8, ptr %object, i64 $DATA
  %data = load i64, ptr %data_at
  %mask_at = getelementptr i8, ptr %input, i64 32
  %mask = load i64, ptr %mask_at
  %low = and i64 %data, %mask
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %axes, label %no
axes:
  %dims_at = getelementptr i8, ptr %object, i64 $DIMS
  %dims = load ptr, ptr %dims_at
  %strides_at = getelementptr i8, ptr %object, i64 $STRIDES
  %strides = load ptr, ptr %strides_at
  %want_dims_at = getelementptr i8, ptr %input, i64 16
  %want_dims = load ptr, ptr %want_dims_at
  %want_strides_at = getelementptr i8, ptr %input, i64 24
  %want_strides = load ptr, ptr %want_strides_at
  br label %next
next:
  %a = phi i64 [ 0, %axes ], [ %a_next, %good ]
  %more = icmp ult i64 %a, %axes_have
  br i1 %more, label %axis, label %yes
axis:
  %dim_at = getelementptr i64, ptr %dims, i64 %a
  %dim = load i64, ptr %dim_at
  %want_dim_at = getelementptr i64, ptr %want_dims, i64 %a
  %want_dim = load i64, ptr %want_dim_at
  %same_dim = icmp eq i64 %dim, %want_dim
  br i1 %same_dim, label %stride, label %no
stride:
  %stride_at = getelementptr i64, ptr %strides, i64 %a
  %step = load i64, ptr %stride_at
  %want_stride_at = getelementptr i64, ptr %want_strides, i64 %a
  %want_step = load i64, ptr %want_stride_at
  %same_step = icmp eq i64 %step, %want_step
  %is_one = icmp eq i64 %dim, 1
  %fine = or i1 %same_step, %is_one
  br i1 %fine, label %good, label %no
good:
  %a_next = add i64 %a, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i64 @ge2rt_word(ptr %record, i64 %index) alwaysinline {
  %at = getelementptr i64, ptr %record, i64 %index
  %value = load i64, ptr %at
  ret i64 %value
}

define internal ptr @ge2rt_object(ptr %record, i64 %index) alwaysinline {
  %at = getelementptr ptr, ptr %record, i64 %index
  %value = load ptr, ptr %at
  ret ptr %value
}

define internal void @ge2rt_drop(ptr %objects, i64 %count) {
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %i_next, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  call void @Py_DecRef(ptr %object)
  %i_next = add i64 %i, 1
  br label %next
done:
  ret void
}

; self is (record address, Python function, whatever has to live)
define ptr @ge2rt_call(ptr %self, ptr %args, i64 %given) {
  %address = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %record64 = call i64 @PyLong_AsUnsignedLongLong(ptr %address)
  %record = inttoptr i64 %record64 to ptr
  %inputs = call i64 @ge2rt_word(ptr %record, i64 0)
  %outputs = call i64 @ge2rt_word(ptr %record, i64 1)
  %base_count = call i64 @ge2rt_word(ptr %record, i64 2)
  %bases = alloca i64, i64 %base_count
  %made = alloca ptr, i64 %outputs
  %pair = alloca [2 x ptr]
  %steps = call ptr @ge2rt_object(ptr %record, i64 6)
  %step_count = call i64 @ge2rt_word(ptr %record, i64 7)
  %flags = call ptr @ge2rt_object(ptr %record, i64 15)
  %flag_bytes = call i64 @ge2rt_word(ptr %record, i64 16)
  %exclusive = call i64 @ge2rt_word(ptr %record, i64 9)
  %busy_at = getelementptr i64, ptr %record, i64 8
  %right = icmp eq i64 %given, %inputs
  br i1 %right, label %start, label %miss
start:
  %busy = load i64, ptr %busy_at
  %free = icmp eq i64 %busy, 0
  br i1 %free, label %initial, label %miss
initial:
  %initial_bases = call ptr @ge2rt_object(ptr %record, i64 5)
  %base_bytes = mul i64 %base_count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %bases, ptr %initial_bases, i64 %base_bytes, i1 false)
  %input_list = call ptr @ge2rt_object(ptr %record, i64 3)
  %ndarray = call ptr @ge2rt_object(ptr %record, i64 12)
  br label %input_next
input_next:
  %i = phi i64 [ 0, %initial ], [ %i_next, %input_good ]
  %input_more = icmp ult i64 %i, %inputs
  br i1 %input_more, label %input, label %output_start
input:
  %input_at = getelementptr [48 x i8], ptr %input_list, i64 %i
  %array_at = getelementptr ptr, ptr %args, i64 %i
  %array = load ptr, ptr %array_at
  %fits = call i1 @ge2rt_fits(ptr %array, ptr %input_at, ptr %ndarray)
  br i1 %fits, label %input_good, label %miss
input_good:
  %data_at = getelementptr i8, ptr %array, i64 $DATA
  %data = load i64, ptr %data_at
  %base_index = call i64 @ge2rt_word(ptr %input_at, i64 5)
  %base_at = getelementptr i64, ptr %bases, i64 %base_index
  store i64 %data, ptr %base_at
  %i_next = add i64 %i, 1
  br label %input_next
output_start:
  %output_list = call ptr @ge2rt_object(ptr %record, i64 4)
  %empty = call ptr @ge2rt_object(ptr %record, i64 11)
  br label %output_next
output_next:
  %o = phi i64 [ 0, %output_start ], [ %o_next, %output_good ]
  %output_more = icmp ult i64 %o, %outputs
  br i1 %output_more, label %output, label %work
output:
  %output_at = getelementptr [40 x i8], ptr %output_list, i64 %o
  %dtype = call ptr @ge2rt_object(ptr %output_at, i64 1)
  %new = call ptr @ge2rt_object(ptr %record, i64 17)
  %no_new = icmp eq ptr %new, null
  br i1 %no_new, label %output_python, label %output_native
output_native:
  %out_rank = call i64 @ge2rt_word(ptr %output_at, i64 3)
  %out_rank32 = trunc i64 %out_rank to i32
  %out_dims = call ptr @ge2rt_object(ptr %output_at, i64 4)
  call void @Py_IncRef(ptr %dtype)
  %fresh_native = call ptr %new(ptr %ndarray, ptr %dtype, i32 %out_rank32, ptr %out_dims, ptr null,
                                ptr null, i32 0, ptr null)
  br label %output_made
output_python:
  %shape = load ptr, ptr %output_at
  store ptr %shape, ptr %pair
  %second = getelementptr ptr, ptr %pair, i64 1
  store ptr %dtype, ptr %second
  %fresh_python = call ptr @PyObject_VectorcallDict(ptr %empty, ptr %pair, i64 2, ptr null)
  br label %output_made
output_made:
  %fresh = phi ptr [ %fresh_native, %output_native ], [ %fresh_python, %output_python ]
  %none = icmp eq ptr %fresh, null
  br i1 %none, label %no_memory, label %output_there
output_there:
  %fresh_at = getelementptr ptr, ptr %made, i64 %o
  store ptr %fresh, ptr %fresh_at
  %o_next = add i64 %o, 1
  %fresh_data_at = getelementptr i8, ptr %fresh, i64 $DATA
  %fresh_data = load i64, ptr %fresh_data_at
  %fresh_low = and i64 %fresh_data, 15
  %fresh_aligned = icmp eq i64 %fresh_low, 0
  br i1 %fresh_aligned, label %output_good, label %misplaced
output_good:
  %fresh_index = call i64 @ge2rt_word(ptr %output_at, i64 2)
  %fresh_base_at = getelementptr i64, ptr %bases, i64 %fresh_index
  store i64 %fresh_data, ptr %fresh_base_at
  br label %output_next
no_memory:
  call void @PyErr_Clear()
  call void @ge2rt_drop(ptr %made, i64 %o)
  br label %miss
misplaced:
  call void @ge2rt_drop(ptr %made, i64 %o_next)
  br label %miss
work:
  ; np.empty may have run foreign code (a garbage collection), so ask again
  %busy_now = load i64, ptr %busy_at
  %still_free = icmp eq i64 %busy_now, 0
  br i1 %still_free, label %claim, label %misplaced_all
misplaced_all:
  call void @ge2rt_drop(ptr %made, i64 %outputs)
  br label %miss
claim:
  store i64 %exclusive, ptr %busy_at
  call void @llvm.memset.p0.i64(ptr %flags, i8 0, i64 %flag_bytes, i1 false)
  %expected = call i64 @ge2rt_expected(ptr %steps, i64 %step_count)
  %limit = call i64 @ge2rt_word(ptr %record, i64 14)
  %poll = mul i64 %limit, $POLL
  %short = icmp ult i64 %expected, %limit
  br i1 %short, label %hold, label %release
hold:
  %code_held = call i64 @ge2rt_steps(ptr %steps, i64 %step_count, ptr %bases, i64 %poll)
  br label %after
release:
  %thread = call ptr @PyEval_SaveThread()
  %code_free = call i64 @ge2rt_steps(ptr %steps, i64 %step_count, ptr %bases, i64 %poll)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %after
after:
  %code = phi i64 [ %code_held, %hold ], [ %code_free, %release ]
  %fine = icmp eq i64 %code, 0
  br i1 %fine, label %flag_next, label %stopped
stopped:
  %raised = icmp eq i64 %code, -1
  br i1 %raised, label %interrupted, label %fault
interrupted:
  call void @ge2rt_drop(ptr %made, i64 %outputs)
  store i64 0, ptr %busy_at
  ret ptr null
flag_next:
  %f = phi i64 [ 0, %after ], [ %f_next, %flag ]
  %flag_more = icmp ult i64 %f, %flag_bytes
  br i1 %flag_more, label %flag, label %done
flag:
  %flag_at = getelementptr i8, ptr %flags, i64 %f
  %value = load i32, ptr %flag_at
  %f_next = add i64 %f, 4
  %clear = icmp eq i32 %value, 0
  br i1 %clear, label %flag_next, label %fault
fault:
  ; code 0: a flag is up
  call void @ge2rt_drop(ptr %made, i64 %outputs)
  %code_object = call ptr @PyLong_FromLongLong(i64 %code)
  %told_count = add i64 %given, 1
  %told = alloca ptr, i64 %told_count
  store ptr %code_object, ptr %told
  %told_arrays = getelementptr ptr, ptr %told, i64 1
  %told_bytes = mul i64 %given, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %told_arrays, ptr %args, i64 %told_bytes, i1 false)
  %on_fault = call ptr @ge2rt_object(ptr %record, i64 13)
  %answer = call ptr @PyObject_VectorcallDict(ptr %on_fault, ptr %told, i64 %told_count, ptr null)
  call void @Py_DecRef(ptr %code_object)
  store i64 0, ptr %busy_at
  ret ptr %answer
done:
  store i64 0, ptr %busy_at
  %single = call i64 @ge2rt_word(ptr %record, i64 10)
  %alone = icmp ne i64 %single, 0
  br i1 %alone, label %one, label %many
one:
  %only = load ptr, ptr %made
  ret ptr %only
many:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %lost, label %fill_next
lost:
  call void @ge2rt_drop(ptr %made, i64 %outputs)
  ret ptr null
fill_next:
  %t = phi i64 [ 0, %many ], [ %t_next, %fill ]
  %fill_more = icmp ult i64 %t, %outputs
  br i1 %fill_more, label %fill, label %filled
fill:
  %item_at = getelementptr ptr, ptr %made, i64 %t
  %item = load ptr, ptr %item_at
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %t, ptr %item)
  %t_next = add i64 %t, 1
  br label %fill_next
filled:
  ret ptr %tuple
miss:
  %python = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %result = call ptr @PyObject_VectorcallDict(ptr %python, ptr %args, i64 %given, ptr null)
  ret ptr %result
}

; self is (address of the steps, their number, limit): steps(address of the bases) -> code
define ptr @ge2rt_row(ptr %self, ptr %args, i64 %given) {
  %steps_object = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %steps64 = call i64 @PyLong_AsUnsignedLongLong(ptr %steps_object)
  %steps = inttoptr i64 %steps64 to ptr
  %count_object = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %count = call i64 @PyLong_AsUnsignedLongLong(ptr %count_object)
  %limit_object = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %limit = call i64 @PyLong_AsUnsignedLongLong(ptr %limit_object)
  %poll = mul i64 %limit, $POLL
  %bases_object = load ptr, ptr %args
  %bases64 = call i64 @PyLong_AsUnsignedLongLong(ptr %bases_object)
  %bases = inttoptr i64 %bases64 to ptr
  %thread = call ptr @PyEval_SaveThread()
  %code = call i64 @ge2rt_steps(ptr %steps, i64 %count, ptr %bases, i64 %poll)
  call void @PyEval_RestoreThread(ptr %thread)
  %raised = icmp eq i64 %code, -1
  br i1 %raised, label %signal, label %answer
signal:
  ret ptr null
answer:
  %code_object = call ptr @PyLong_FromLongLong(i64 %code)
  ret ptr %code_object
}

; self is ([tuple of functions], their answer to a call they do not know, Python function)
define ptr @ge2rt_dispatch(ptr %self, ptr %args, ptr %kwargs) {
  %plain = icmp eq ptr %kwargs, null
  br i1 %plain, label %start, label %slow
start:
  %cell = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %miss = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %functions = call ptr @PyList_GetItem(ptr %cell, i64 0)
  call void @Py_IncRef(ptr %functions)
  %count = call i64 @PyTuple_Size(ptr %functions)
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %i_next, %missed ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %try, label %none
try:
  %function = call ptr @PyTuple_GetItem(ptr %functions, i64 %i)
  %answer = call ptr @PyObject_Call(ptr %function, ptr %args, ptr null)
  %is_miss = icmp eq ptr %answer, %miss
  br i1 %is_miss, label %missed, label %done
missed:
  call void @Py_DecRef(ptr %answer)
  %i_next = add i64 %i, 1
  br label %next
done:
  call void @Py_DecRef(ptr %functions)
  ret ptr %answer
none:
  call void @Py_DecRef(ptr %functions)
  br label %slow
slow:
  %python = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %result = call ptr @PyObject_Call(ptr %python, ptr %args, ptr %kwargs)
  ret ptr %result
}

; a step that calls a loop of NumPy's: context is {loop, -> dimensions, -> steps, data}
define i32 @ge2rt_loop(ptr %context, ptr %packed) {
  %args = alloca [3 x ptr]
  call void @llvm.memcpy.p0.p0.i64(ptr %args, ptr %packed, i64 24, i1 false)
  %loop = load ptr, ptr %context
  %dimensions = call ptr @ge2rt_object(ptr %context, i64 1)
  %steps = call ptr @ge2rt_object(ptr %context, i64 2)
  %data = call ptr @ge2rt_object(ptr %context, i64 3)
  call void %loop(ptr %args, ptr %dimensions, ptr %steps, ptr %data)
  ret i32 0
}

declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare ptr @PyEval_SaveThread()
declare ptr @PyObject_Call(ptr, ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

_POLL = 2000  # limits (10 us each) of expected work between two looks for signals

# Offsets of the fields of NumPy's array objects, the same since NumPy 1.0 (docs: "C-API types").
ARRAY_FIELDS = {"DATA": 16, "RANK": 24, "DIMS": 32, "STRIDES": 40, "DESCR": 56}

PROGRAM_IR = Template(_PROGRAM).substitute(MAX_ARGS=MAX_PROGRAM_ARGS, POLL=_POLL, **ARRAY_FIELDS)
