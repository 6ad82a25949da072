"""Selection, plans and launching: what happens between a call and the device."""
