package frame

// dateLayout is how a day stands in a frame.
const dateLayout = "20060102"

// Listing is the shape of a frame of variable length: digits that tell how long
// it is, a header of fixed length, and records. Frames without records stand
// behind such digits too, see HasPrefix.
type Listing struct {
	// Prefix is how many digits stand before the frame and tell the bytes behind
	// them.
	Prefix int
	// Header is the bytes of the header.
	Header int
	// Record is the bytes of one record.
	Record int
	// Max is how many records there are at most.
	Max int
}

// Body is the bytes of header and records, as the frame itself tells them.
func (l Listing) Body(records int) int { return l.Header + records*l.Record }

// Length is the bytes of all that is sent, the prefix included.
func (l Listing) Length(records int) int { return l.Prefix + l.Body(records) }

// Records is how many records a frame of this length has, the prefix included.
// It is false for a length that no frame has.
func (l Listing) Records(length int) (int, bool) {
	rest := length - l.Prefix - l.Header
	if rest < 0 || rest%l.Record != 0 || rest/l.Record > l.Max {
		return 0, false
	}
	return rest / l.Record, true
}

// PrefixValue reads the digits before a frame: how many bytes follow them. It is
// false for anything else than digits, a sign and a space too.
func PrefixValue(digits []byte) (int, bool) {
	n := 0
	for _, b := range digits {
		if !isDigit(b) {
			return 0, false
		}
		n = n*10 + int(b-'0')
	}
	return n, len(digits) > 0
}

// HasPrefix reports whether the first digits of b tell how many bytes follow
// them.
func HasPrefix(b []byte, digits int) bool {
	if len(b) < digits {
		return false
	}
	n, ok := PrefixValue(b[:digits])
	return ok && n == len(b)-digits
}

// AppendListing starts a frame with so many records behind dst, and writes its
// prefix. More than it may have are refused.
func AppendListing(dst []byte, l Listing, records int) Encoder {
	if records > l.Max {
		e := Encoder{orig: dst, buf: dst}
		e.refuse("records", ReasonTooMany)
		return e
	}
	e := Append(dst, l.Length(records))
	e.Number("prefix", int64(l.Body(records)), l.Prefix)
	return e
}

// DecodeListing starts reading a frame of this shape. Its length must be one
// that a frame can have, and the one that its prefix tells. Offsets count from
// the prefix on.
func DecodeListing(frame []byte, l Listing) Decoder {
	d := Decoder{frame: frame, prefix: l.Prefix}
	records, ok := l.Records(len(frame))
	if !ok || !HasPrefix(frame, l.Prefix) {
		d.refuse(whole, ReasonLength)
	}
	d.records = records
	return d
}

// RecordCount refuses the frame unless the number there is that of its records.
func (d *Decoder) RecordCount(field string, offset, width int) {
	if n := d.Number(field, offset, width); d.err == nil && n != int64(d.records) {
		d.refuse(field, ReasonCount)
	}
}

// TotalLength refuses the frame unless the number there is its length without
// the prefix.
func (d *Decoder) TotalLength(field string, offset, width int) {
	if n := d.Number(field, offset, width); d.err == nil && n != int64(len(d.frame)-d.prefix) {
		d.refuse(field, ReasonLength)
	}
}

// Records is how many records are to be read: none of a frame that is refused,
// and none beside any code but Done, where they say nothing.
func (d *Decoder) Records(responseCode string) int {
	if d.err != nil || responseCode != Done {
		return 0
	}
	return d.records
}
