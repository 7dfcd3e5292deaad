"""What things are: the words of the field as frozen values. This room imports none of the others."""
