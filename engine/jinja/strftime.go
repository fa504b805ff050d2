package jinja

import (
	"fmt"
	"strings"
	"time"
)

// strftimeNow is the time of the rendering in the format of C's strftime. It has no zone, as in transformers.
func strftimeNow(r *render, _ Value, a args) (Value, error) {
	format, err := a.text(0, "")
	if err != nil {
		return nil, err
	}
	if err := r.spend(len(format) + stepCost*strings.Count(format, "%")); err != nil {
		return nil, err
	}
	s := strftime(r.now, format)
	return s, r.room(1, len(s))
}

func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		flag := byte(0) // - no padding, _ spaces, 0 zeros, ^ upper case
		if strings.IndexByte("-_0^", format[i]) >= 0 && i+1 < len(format) {
			flag = format[i]
			i++
		}
		b.WriteString(timeField(t, format[i], flag))
	}
	return b.String()
}

// timeField is one conversion of strftime in the C locale.
func timeField(t time.Time, c, flag byte) string {
	number := func(n, width int, pad byte) string {
		switch {
		case flag == '-':
			return fmt.Sprintf("%d", n)
		case flag == '_' || flag != '0' && pad == ' ':
			return fmt.Sprintf("%*d", width, n)
		}
		return fmt.Sprintf("%0*d", width, n)
	}
	word := func(layout string) string {
		s := t.Format(layout)
		if flag == '^' {
			return strings.ToUpper(s)
		}
		return s
	}
	hour12 := (t.Hour()+11)%12 + 1
	isoYear, isoWeek := t.ISOWeek()
	switch c {
	case 'a':
		return word("Mon")
	case 'A':
		return word("Monday")
	case 'b', 'h':
		return word("Jan")
	case 'B':
		return word("January")
	case 'p':
		return word("PM")
	case 'P':
		return word("pm")
	case 'c':
		return t.Format("Mon Jan _2 15:04:05 2006")
	case 'x', 'D':
		return t.Format("01/02/06")
	case 'X', 'T':
		return t.Format("15:04:05")
	case 'F':
		return t.Format("2006-01-02")
	case 'R':
		return t.Format("15:04")
	case 'r':
		return t.Format("03:04:05 PM")
	case 'Y':
		return number(t.Year(), 1, '0')
	case 'C':
		return number(t.Year()/100, 2, '0')
	case 'y':
		return number(t.Year()%100, 2, '0')
	case 'G':
		return number(isoYear, 4, '0')
	case 'g':
		return number(isoYear%100, 2, '0')
	case 'm':
		return number(int(t.Month()), 2, '0')
	case 'd':
		return number(t.Day(), 2, '0')
	case 'e':
		return number(t.Day(), 2, ' ')
	case 'H':
		return number(t.Hour(), 2, '0')
	case 'k':
		return number(t.Hour(), 2, ' ')
	case 'I':
		return number(hour12, 2, '0')
	case 'l':
		return number(hour12, 2, ' ')
	case 'M':
		return number(t.Minute(), 2, '0')
	case 'S':
		return number(t.Second(), 2, '0')
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case 'j':
		return number(t.YearDay(), 3, '0')
	case 'u':
		return number((int(t.Weekday())+6)%7+1, 1, '0')
	case 'w':
		return number(int(t.Weekday()), 1, '0')
	case 'U':
		return number((t.YearDay()+6-int(t.Weekday()))/7, 2, '0')
	case 'W':
		return number((t.YearDay()+6-(int(t.Weekday())+6)%7)/7, 2, '0')
	case 'V':
		return number(isoWeek, 2, '0')
	case 's':
		return number(int(t.Unix()), 1, '0')
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'z', 'Z':
		return ""
	case '%':
		return "%"
	}
	if flag != 0 {
		return "%" + string(flag) + string(c)
	}
	return "%" + string(c)
}
