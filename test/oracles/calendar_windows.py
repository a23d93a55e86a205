"""Judges windows of the calendar with Python's zoneinfo. One window a line on the standard input:
zone, unit, multiplier, anchor month, anchor day, anchor weekday (Monday is 0), instant, start, end.
Prints each line whose window is wrong, and at the end the number of windows and the version of the data."""
import sys
from calendar import monthrange
from datetime import date, datetime, timedelta
from functools import lru_cache
from importlib.metadata import version
from zoneinfo import ZoneInfo, reset_tzpath

reset_tzpath(to=[])  # Only the package tzdata, and not the machine's files.
EPOCH = date(1970, 1, 1)

def in_month(months, day):  # months since January 1970
    year, month = 1970 + months // 12, months % 12 + 1
    return date(year, month, min(day, monthrange(year, month)[1]))

def first_date(unit, number, month, day, weekday):
    if unit == 'day': return EPOCH + timedelta(days=number)
    if unit == 'week': return EPOCH - timedelta(days=(EPOCH.weekday() - weekday) % 7) + timedelta(weeks=number)
    return in_month(number if unit == 'month' else number * 12 + month - 1, day)

def number_of(unit, at, *anchors):  # The last unit that begins on or before the date.
    guess = {'day': (at - EPOCH).days, 'week': (at - EPOCH).days // 7 + 1,
             'month': (at.year - 1970) * 12 + at.month, 'year': at.year - 1970}[unit]
    while first_date(unit, guess, *anchors) > at: guess -= 1
    return guess

@lru_cache(maxsize=200_000)
def begins(zone, instant, day):  # Whether this is the first instant with this local date or a later one.
    local = lambda seconds: datetime.fromtimestamp(seconds, ZoneInfo(zone)).date()
    earlier = [1, *range(900, 4 * 3600, 900)]
    return local(instant) >= day and all(local(instant - seconds) < day for seconds in earlier)

def is_right(zone, unit, multiplier, anchors, instant, start, end):
    base = anchors[0] - 1 if unit == 'month' else 0
    today = datetime.fromtimestamp(instant, ZoneInfo(zone)).date()
    for at in (today, today + timedelta(days=1)):  # The clock may have returned from tomorrow to today.
        number = (number_of(unit, at, *anchors) - base) // multiplier * multiplier + base
        first, after = (first_date(unit, n, *anchors) for n in (number, number + multiplier))
        if begins(zone, start, first) and begins(zone, end, after): return start <= instant < end
    return False

count = 0
for line in sys.stdin:
    zone, unit, *numbers = line.split()
    multiplier, month, day, weekday, instant, start, end = map(int, numbers)
    count += 1
    if not is_right(zone, unit, multiplier, (month, day, weekday), instant, start, end): print('wrong:', line, end='')
print(count, version('tzdata'))
