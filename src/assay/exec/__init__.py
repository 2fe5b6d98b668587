"""One job document in, one result folder out: the door through which every engine measures."""
