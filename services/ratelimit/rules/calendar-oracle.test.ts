import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { missingProgram } from '../../../test/support/require-server.ts'
import { calendarUnits, openCalendar, weekdays } from './calendar.ts'
import { isTimeZone, timeZoneDataVersion } from './time-zone.ts'

/** The package with the data of this version: 2026c is 2026.3. */
const release = timeZoneDataVersion.charCodeAt(4) - 'a'.charCodeAt(0) + 1
const tzdata = `${timeZoneDataVersion.slice(0, 4)}.${release}`

const listZones =
  'import importlib.metadata, zoneinfo; zoneinfo.reset_tzpath(to=[]); ' +
  'print(importlib.metadata.version("tzdata"), *sorted(zoneinfo.available_timezones()))'

/** Not a place: its local time is unknown by definition, and ICU does not have it. */
const noPlace = 'Factory'

const isLong = process.env['SOAK'] === '1'
const instantsOfZone = isLong ? 10_000 : 15
const seed = Number(process.env['CALENDAR_SEED'] ?? Date.now() % 2 ** 31)
const endOfInstants = Date.UTC(2100, 0, 1) / 1000
const linesOfBatch = 200_000
const title = `windows are those of Python's zoneinfo (${instantsOfZone} instants a zone, seed ${seed})`

function findMissing(): string | false {
  const noPython = missingProgram('python3')
  if (noPython !== false) return noPython
  if (zonesOfPython().includes(tzdata)) return false
  const reason = `python3 lacks the package tzdata ${tzdata}, the version of the data in this Node`
  if (process.env['REQUIRE_SERVERS'] === '1') throw new Error(`${reason}, and REQUIRE_SERVERS=1`)
  process.stderr.write(`SKIPPED: ${reason}\n`)
  return reason
}

/** Returns the version of the Python package `tzdata`, followed by the names of its time zones. */
function zonesOfPython(): readonly string[] {
  return spawnSync('python3', ['-c', listZones], { encoding: 'utf8' }).stdout.trim().split(' ')
}

test(title, {
  skip: findMissing(),
  timeout: isLong ? 7_200_000 : 60_000,
}, () => {
  const zones = zonesOfPython().slice(1)
  assert.deepEqual(
    zones.filter(zone => !isTimeZone(zone)),
    [noPlace],
  )
  const random = createRandom(seed)
  let lines: string[] = []
  for (const zone of zones) {
    if (zone === noPlace) continue
    for (let count = 0; count < instantsOfZone; count += 1) lines.push(randomWindow(zone, random))
    if (lines.length < linesOfBatch) continue
    judge(lines)
    lines = []
  }
  judge(lines)
})

function judge(lines: readonly string[]): void {
  const oracle = join(import.meta.dirname, '../../../test/oracles/calendar_windows.py')
  const input = `${lines.join('\n')}\n`
  const { stdout, stderr } = spawnSync('python3', [oracle], { input, encoding: 'utf8', maxBuffer: 2 ** 28 })
  assert.equal(stderr, '')
  assert.equal(stdout.slice(0, 5000), `${lines.length} ${tzdata}\n`)
}

/** A window of a random calendar of the zone, as the oracle reads it. */
function randomWindow(zone: string, random: (bound: number) => number): string {
  const unit = calendarUnits[random(calendarUnits.length)] ?? 'day'
  const multiplier = random(2) === 0 ? 1 : 1 + random(20)
  const [month, day, weekday] = [1 + random(12), 1 + random(31), random(7)]
  const instant = random(endOfInstants)
  const { start, end } = openCalendar({
    unit,
    timeZone: zone,
    unitMultiplier: multiplier,
    anchorMonth: month,
    anchorDay: day,
    anchorWeekday: weekdays[weekday],
  }).windowAt(instant)
  return [zone, unit, multiplier, month, day, weekday, instant, start, end].join(' ')
}

/** Mulberry32: whole numbers from 0 to below a bound. */
function createRandom(seed: number): (bound: number) => number {
  let state = seed
  return bound => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * bound)
  }
}
