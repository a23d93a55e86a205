import { fork } from 'node:child_process'
import { parseArgs } from 'node:util'
import type { TraceLine } from './engine/simulation.ts'
import {
  type AnyWorld,
  type Defect,
  generateScenario,
  type RunResult,
  runScenario,
  type ScenarioEvent,
  type Shrunk,
  shrink,
} from './engine/world.ts'
import { findDefect, worlds } from './worlds/worlds.ts'

/** Simulates worlds by seeds, replays one seed, or shows how a planted defect is found. */

const help = `Usage: simulate.ts [--seeds N|--seconds N] [--from N] [--world NAME] [--jobs N]
       simulate.ts --seed N --world NAME [--defect NAME]
       simulate.ts --defect NAME|all [--seeds N] [--from N] [--jobs N]

  --seeds   the number of seeds for each world (1000)
  --seconds runs as many seeds as this time allows, with an equal part of it for each world
  --from    the first seed (1)
  --world   ${worlds.map(({ name }) => name).join(', ')}; all of them when left out
  --seed    runs one seed, and prints its trace and its digest
  --defect  plants a defect, or each of several (a,b) or of all, and runs seeds until it is found
  --jobs    the number of processes (1)
`
/** The first seeds of two processes differ by this, where nobody knows how many seeds each of them runs. */
const seedsOfProcess = 1_000_000
/** A failure that needs more events is not shrunk to what a person can follow. */
const maxEvents = 10
/** A trace with more lines is shown without its middle. */
const maxLines = 70
const progressMs = 60_000
/** Whether another process of this program prints the header. */
const isChild = process.send !== undefined

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    seconds: { type: 'string' },
    seed: { type: 'string' },
    world: { type: 'string' },
    defect: { type: 'string' },
    jobs: { type: 'string', default: '1' },
    help: { type: 'boolean', default: false },
  },
})

function readNumber(name: 'seeds' | 'seconds' | 'from' | 'seed' | 'jobs'): number {
  const number = Number(values[name])
  if (Number.isSafeInteger(number) && number > 0) return number
  throw new Error(`--${name}: "${values[name]}" is not a whole number above 0`)
}

function chooseWorlds(): readonly AnyWorld[] {
  if (values.world === undefined) return worlds
  const chosen = worlds.filter(({ name }) => name === values.world)
  if (chosen.length > 0) return chosen
  throw new Error(`--world: "${values.world}" is not one of ${worlds.map(({ name }) => name).join(', ')}`)
}

function printTrace(trace: readonly TraceLine[], { violation }: Pick<RunResult, 'violation'>): void {
  const line = ({ atMs, who, what }: TraceLine) =>
    `${(atMs / 1000).toFixed(3).padStart(9)}  ${who.padEnd(22)}  ${what}`
  console.log(`${'seconds'.padStart(9)}  ${'who'.padEnd(22)}  what`)
  const left = trace.length - maxLines
  const shown = left > 0 ? trace.toSpliced(10, left) : trace
  for (const [index, one] of shown.entries()) {
    if (left > 0 && index === 10) console.log(`${''.padStart(9)}  ... ${left} lines ...`)
    console.log(line(one))
  }
  if (violation)
    console.log(line({ ...violation, what: `NOT SO: ${violation.invariant}. ${violation.what}` }))
}

/** Shrinks a failed scenario, and prints it as a table. */
async function report(
  world: AnyWorld,
  seed: number,
  events: readonly ScenarioEvent[],
  defect?: Defect,
): Promise<void> {
  const shrunk = await shrink(world, seed, events, { defect })
  const planted = defect === undefined ? '' : ` with the defect ${defect.name}`
  console.log(
    `\n${world.name}, seed ${seed}${planted}: shrunk from ${events.length} to ${shrunk.events.length} events in ${shrunk.runs} runs`,
  )
  printTrace(shrunk.result.trace, shrunk.result)
  const replay = `make simulate WORLD=${world.name} SEED=${seed}${defect === undefined ? '' : ` DEFECT=${defect.name}`}`
  console.log(`digest ${shrunk.result.digest}; the whole scenario: ${replay}\n`)
}

async function replay(world: AnyWorld, seed: number, defect?: Defect): Promise<boolean> {
  const events = generateScenario<ScenarioEvent>(world, seed)
  const result = await runScenario(world, seed, events, defect)
  printTrace(result.trace, result)
  console.log(
    `${world.name}, seed ${seed}: ${events.length} events, ${result.steps} steps, digest ${result.digest}`,
  )
  if (result.violation) await report(world, seed, events, defect)
  return result.violation === undefined
}

/** Runs seeds until one fails, the time is over or all have run. Returns how many ran, and whether all held. */
async function runSeeds(world: AnyWorld, from: number, { count, endMs }: { count: number; endMs: number }) {
  let lastMs = performance.now()
  let ran = 0
  while (ran < count && performance.now() < endMs) {
    const seed = from + ran++
    const events = generateScenario<ScenarioEvent>(world, seed)
    const { violation } = await runScenario(world, seed, events)
    if (violation) {
      await report(world, seed, events)
      return { ran, isGood: false }
    }
    if (performance.now() - lastMs < progressMs) continue
    lastMs = performance.now()
    console.log(`${world.name}: seeds ${from} to ${seed} hold`)
  }
  return { ran, isGood: true }
}

async function runAll(): Promise<boolean> {
  const chosen = chooseWorlds()
  const from = readNumber('from')
  const eachMs = values.seconds === undefined ? undefined : (readNumber('seconds') * 1_000) / chosen.length
  let isGood = true
  for (const world of chosen) {
    const begin = process.cpuUsage()
    const limit =
      eachMs === undefined
        ? { count: readNumber('seeds'), endMs: Number.POSITIVE_INFINITY }
        : { count: seedsOfProcess, endMs: performance.now() + eachMs }
    const result = await runSeeds(world, from, limit)
    const { user, system } = process.cpuUsage(begin)
    const rate = `${(result.ran / ((user + system) / 1e6)).toFixed(0)} a second of processor time`
    const what = result.isGood ? 'hold' : 'were run, and the last one fails'
    console.log(`${world.name}: ${result.ran} seeds from ${from} ${what}; ${rate}`)
    isGood &&= result.isGood
  }
  return isGood
}

/** Returns the arguments of each process. */
function divideWork(jobs: number): readonly (readonly string[])[] {
  const [from, count] = [readNumber('from'), readNumber('seeds')]
  const indexes = Array.from({ length: jobs }, (_, index) => index)
  const world = values.world === undefined ? [] : ['--world', values.world]
  if (values.defect !== undefined) {
    const names = defectNames()
    const parts = indexes.map(index => names.filter((_, position) => position % jobs === index))
    return parts
      .filter(part => part.length > 0)
      .map(part => ['--defect', part.join(), '--from', `${from}`, '--seeds', `${count}`])
  }
  if (values.seconds !== undefined) {
    const { seconds } = values
    return indexes.map(index => [
      ...world,
      '--from',
      `${from + index * seedsOfProcess}`,
      '--seconds',
      seconds,
    ])
  }
  const each = Math.ceil(count / jobs)
  return indexes
    .map(index => ({ first: from + index * each, own: Math.min(each, count - index * each) }))
    .filter(({ own }) => own > 0)
    .map(({ first, own }) => [...world, '--from', `${first}`, '--seeds', `${own}`])
}

async function runInProcesses(jobs: number): Promise<boolean> {
  if (values.defect !== undefined) console.log(defectsHeader)
  const codes = divideWork(jobs).map(args => {
    const child = fork(import.meta.filename, args, { stdio: 'inherit' })
    return new Promise<number>(resolve => child.once('exit', code => resolve(code ?? 1)))
  })
  return (await Promise.all(codes)).every(code => code === 0)
}

/** Runs seeds until the defect is found. Returns the first scenario that shrinks to what a person can follow, if there is one. */
async function findPlanted(world: AnyWorld, defect: Defect) {
  const [from, count] = [readNumber('from'), readNumber('seeds')]
  const begin = process.cpuUsage()
  let found: { seed: number; events: readonly ScenarioEvent[]; shrunk: Shrunk<ScenarioEvent> } | undefined
  for (let seed = from; seed < from + count; seed++) {
    const events = generateScenario<ScenarioEvent>(world, seed)
    const { violation } = await runScenario(world, seed, events, defect)
    if (violation === undefined) continue
    const shrunk = await shrink(world, seed, events, { defect })
    found = { seed, events, shrunk }
    if (shrunk.events.length <= maxEvents) break
  }
  const { user, system } = process.cpuUsage(begin)
  return found && { ...found, ran: found.seed - from + 1, seconds: (user + system) / 1e6 }
}

async function showDefect(name: string): Promise<boolean> {
  const { world, defect } = findDefect(name)
  if (values.seed !== undefined) return replay(world, readNumber('seed'), defect)
  console.log(`${name}: ${defect.summary}`)
  const found = await findPlanted(world, defect)
  if (found) await report(world, found.seed, found.events, defect)
  else console.log(`not found with ${values.seeds} seeds`)
  return found !== undefined
}

const defectsHeader = `${'world'.padEnd(10)} ${'defect'.padEnd(26)}  seeds  seconds  events  what fails`

/** Returns the chosen defects; with `all`, those of the chosen worlds. */
function defectNames(): readonly string[] {
  if (values.defect !== 'all')
    return (values.defect?.split(',') ?? []).map(name => findDefect(name).defect.name)
  return chooseWorlds().flatMap(({ defects }) => defects.map(({ name }: Defect) => name))
}

/** Prints how each defect was found. Returns whether all were, in at most `maxEvents` events. */
async function showDefects(names: readonly string[]): Promise<boolean> {
  let isGood = true
  for (const name of names) {
    const { world, defect } = findDefect(name)
    const found = await findPlanted(world, defect)
    const label = `${world.name.padEnd(10)} ${name.padEnd(26)}`
    if (found === undefined) {
      console.log(`${label}  not found with ${values.seeds} seeds`)
      isGood = false
      continue
    }
    const { events, result } = found.shrunk
    const numbers = `${`${found.ran}`.padStart(5)}  ${found.seconds.toFixed(1).padStart(7)}  ${`${events.length}`.padStart(6)}`
    const isShort = events.length <= maxEvents
    const note = isShort ? '' : `, in more than ${maxEvents} events`
    console.log(`${label}  ${numbers}  ${result.violation?.invariant}${note}`)
    isGood &&= isShort
  }
  return isGood
}

async function main(): Promise<boolean> {
  if (values.help) {
    console.log(help)
    return true
  }
  const jobs = readNumber('jobs')
  if (values.seed === undefined && jobs > 1) return runInProcesses(jobs)
  if (values.defect !== undefined) {
    const names = defectNames()
    const [name] = names
    if (name !== undefined && names.length === 1 && !isChild) return showDefect(name)
    if (!isChild) console.log(defectsHeader)
    return showDefects(names)
  }
  if (values.seed !== undefined) {
    const [world, ...others] = chooseWorlds()
    if (world === undefined || others.length > 0) throw new Error('--seed needs --world')
    return replay(world, readNumber('seed'))
  }
  return runAll()
}

try {
  process.exitCode = (await main()) ? 0 : 1
} catch (error) {
  console.error(`${(error as Error).message}\n\n${help}`)
  process.exitCode = 2
}
