import type { AudioFormat, RouteRules, RuleMode } from './routes/route.ts'
import type { AudioHeader, Disorder, Message, SkelAnimation, TimedList } from './wire/message.ts'

const pcm = 0
const monoRates = [16000, 44100, 48000]
/** At most this many formats of the route are named in a text. */
const namedFormats = 5

/**
 * Audio is PCM: 16-bit mono at 16, 44.1 or 48 kHz, or a format of the route. It needs a header with the
 * format, and consists of whole frames: one sample of whole bytes for each channel ("Limits" of the animation
 * data specification). Messages before the first header are not checked.
 */
function createAudioRule(formats: readonly AudioFormat[]): Rule {
  let header: { readonly audio: AudioHeader | undefined } | undefined

  return {
    check(message) {
      if (message.part === 'header') {
        header = message
        return message.audio && checkFormat(message.audio, formats)
      }
      if (message.part !== 'data' || message.audio === undefined || header === undefined) return undefined
      return checkAudio(message.audio.bytes, header.audio)
    },
  }
}

function checkFormat(audio: AudioHeader, formats: readonly AudioFormat[]): string | undefined {
  if (audio.format !== pcm) return `audio format ${audio.format} is found, ${pcm} (PCM) is allowed`
  if (isAlwaysAllowed(audio) || formats.some(format => isFormat(format, audio))) return undefined
  return `${describeFormat(audio)} is found, ${describeAllowed(formats)} is allowed`
}

function isAlwaysAllowed({ channelCount, bitsPerSample, samplesPerSecond }: AudioHeader): boolean {
  return channelCount === 1 && bitsPerSample === 16 && monoRates.includes(samplesPerSecond)
}

function isFormat(format: AudioFormat, audio: AudioHeader): boolean {
  return (
    isValue(format.channelCount, audio.channelCount) &&
    isValue(format.samplesPerSecond, audio.samplesPerSecond) &&
    isValue(format.bitsPerSample, audio.bitsPerSample)
  )
}

/** An allowed 0 stands for any value except 0. */
const isValue = (allowed: number, found: number) => found > 0 && (allowed === 0 || allowed === found)

function checkAudio(bytes: number, audio: AudioHeader | undefined): string | undefined {
  if (bytes === 0) return undefined
  if (audio === undefined)
    return `${bytes} bytes of audio are found, none are allowed: the header has no audio`
  const frameBytes = audio.channelCount * Math.ceil(audio.bitsPerSample / 8)
  if (frameBytes === 0 || bytes % frameBytes === 0) return undefined
  return `${bytes} bytes of audio are found, a multiple of ${frameBytes} is allowed`
}

function describeFormat({ channelCount, samplesPerSecond, bitsPerSample }: AudioFormat): string {
  const channels = channelCount === 1 ? 'mono' : channelCount === 2 ? 'stereo' : `${channelCount}-channel`
  return `${samplesPerSecond} Hz ${bitsPerSample}-bit ${channels}`
}

function describeAllowed(formats: readonly AudioFormat[]): string {
  const named = formats
    .slice(0, namedFormats)
    .map(format => describeFormat(format).replaceAll(/\b0\b/g, 'any'))
  const more = formats.length > namedFormats ? ` or ${formats.length - namedFormats} more formats` : ''
  return ['16000, 44100 or 48000 Hz 16-bit mono', ...named].join(' or ') + more
}

const lists = ['weights', 'translations', 'rotations', 'scales'] as const

interface End {
  readonly number: number
  readonly latest: number
}

/**
 * Time codes of skeletal animation are finite and increase strictly in each list. A message begins after the
 * end of the one before, which is the latest time code in its four lists. A message that breaks the rule
 * counts too, so that a producer that jumps once gets one violation ("Limits" of the animation data
 * specification).
 */
function createTimeCodesRule(): Rule {
  let before: End | undefined

  return {
    check(message, number) {
      if (message.part !== 'data' || message.skelAnimation === undefined) return undefined
      const { earliest, latest } = message.skelAnimation
      const found = findDisorder(message.skelAnimation)
      const overlap = earliest === undefined ? undefined : findOverlap(earliest, before)
      if (latest !== undefined) before = { number, latest }
      return found ?? overlap
    },
    save: () => before,
    restore(saved) {
      const { number, latest } = saved as { number: number; latest: number | null }
      // JSON has no infinite numbers; they are saved as null.
      before = latest === null ? undefined : { number, latest }
    },
  }
}

function findDisorder(skel: SkelAnimation): string | undefined {
  for (const name of lists) {
    const disorder = skel[name]?.disorder
    if (disorder !== undefined) return `${name}: ${describeDisorder(disorder)}`
  }
  return undefined
}

function findOverlap(earliest: number, before: End | undefined): string | undefined {
  if (before === undefined || earliest > before.latest) return undefined
  return `${earliest} is found, more than ${before.latest} is allowed, where message ${before.number} ended`
}

function describeDisorder({ found, previous }: Disorder): string {
  if (!Number.isFinite(found)) return `${found} is found, a finite number is allowed`
  return `${found} is found after ${previous}, more than that is allowed`
}

interface Last {
  readonly part: Message['part']
  readonly isError: boolean
}

/**
 * The header comes first and once, then data, and a status is last; status messages are also allowed between.
 * A request that ends with ERROR needs no data ("Message ordering" of the animation data specification).
 */
function createOrderRule(): Rule {
  let hasHeader = false
  let hasData = false
  let last: Last | undefined

  return {
    check(message) {
      const before = hasHeader
      if (message.part === 'none')
        return 'neither header nor data nor status is found, one of them is allowed'
      last = { part: message.part, isError: message.part === 'status' && message.status.code === 'ERROR' }
      if (message.part === 'header') {
        hasHeader = true
        return before ? 'a second header is found, one is allowed' : undefined
      }
      if (message.part === 'data') hasData = true
      return before ? undefined : `a ${message.part} message is found, a header is allowed as the first`
    },
    end() {
      if (!hasHeader) return 'the request ended without a header'
      if (last?.part !== 'status')
        return `the request ended with ${last?.part}, a status is allowed as the last`
      if (!hasData && !last.isError) return 'the request ended without data'
      return undefined
    },
    save: () => ({ hasData, last }),
    restore(saved) {
      const { hasData: had, last: before } = saved as { hasData: boolean; last: Last }
      hasData = had
      last = before
    },
  }
}

/**
 * Arrays of weights have a value for each blend shape of the header; arrays of translations, rotations and
 * scales have one for each joint. Messages before the first header are not checked.
 */
function createCountsRule(): Rule {
  let names: { readonly blendShapes: number; readonly joints: number } | undefined

  return {
    check(message) {
      if (message.part === 'header') names = message
      if (message.part !== 'data' || message.skelAnimation === undefined || names === undefined)
        return undefined
      const { weights, translations, rotations, scales } = message.skelAnimation
      return (
        difference('weights', weights, 'blend shapes', names.blendShapes) ??
        difference('translations', translations, 'joints', names.joints) ??
        difference('rotations', rotations, 'joints', names.joints) ??
        difference('scales', scales, 'joints', names.joints)
      )
    },
  }
}

function difference(
  list: string,
  arrays: TimedList | undefined,
  named: string,
  allowed: number,
): string | undefined {
  if (arrays === undefined) return undefined
  const { fewestValues, mostValues } = arrays
  if (fewestValues === allowed && mostValues === allowed) return undefined
  const found = fewestValues === allowed ? mostValues : fewestValues
  return `${found} ${list} are found, ${allowed} are allowed: the header names ${allowed} ${named}`
}

/** Checks the messages of one request in their order. */
interface Rule {
  /** Returns the found and the allowed values as text; undefined if the message follows the rule. */
  check(message: Message, number: number): string | undefined
  /** Checks whether the request may end here. Returns the same as `check`. */
  end?(): string | undefined
  /** The state after the last checked message, as JSON; undefined without a state. */
  save?(): unknown
  /** Continues from a result of `save`. To be called after `check` of the header. */
  restore?(saved: unknown): void
}

export const ruleNames = ['order', 'timeCodes', 'counts', 'audio'] as const
export type RuleName = (typeof ruleNames)[number]

export interface Violation {
  readonly rule: RuleName
  /** The mode of the rule. Rules that are off are not checked. */
  readonly mode: Exclude<RuleMode, 'off'>
  /** The number of the message in the request; the header is 0. */
  readonly messageNumber: number
  /**
   * The number of violations of this rule so far. In mode `warn` only the first is reported; `summary` has
   * all.
   */
  readonly nth: number
  /** The rule, the number of the message, the found and the allowed values, in one line. */
  readonly text: string
}

/** The number of violations and the saved state of each rule that is not off. */
export type SavedRules = readonly (readonly [name: RuleName, broken: number, saved: unknown])[]

/** Checks the messages of one request, in their order, with the rules and modes of its route. */
export class StreamRules {
  readonly #active: readonly ActiveRule[]

  constructor(rules: RouteRules) {
    this.#active = ruleNames.flatMap(name => {
      const mode = rules[name]
      return mode === 'off' ? [] : [{ name, mode, rule: createRule(name, rules), broken: 0 }]
    })
  }

  /** Returns at most one violation of each rule. `number` counts messages from 0. */
  check(message: Message, number: number): readonly Violation[] {
    return this.#collect(number, rule => rule.check(message, number))
  }

  /** Returns the violations of a request that ends here, after `number` messages. */
  end(number: number): readonly Violation[] {
    return this.#collect(number, rule => rule.end?.())
  }

  /** Returns the states of the rules as JSON. */
  save(): SavedRules {
    return this.#active.map(({ name, broken, rule }) => [name, broken, rule.save?.()] as const)
  }

  /**
   * Continues a request of another broker; to be called after `check` of the header. Rules that are off now
   * are ignored.
   */
  restore(saved: SavedRules): void {
    for (const [name, broken, ofRule] of saved) {
      const entry = this.#active.find(other => other.name === name)
      if (entry === undefined) continue
      entry.broken = broken
      if (ofRule !== undefined && ofRule !== null) entry.rule.restore?.(ofRule)
    }
  }

  /** Returns `timeCodes ×12, counts ×3`; empty without violations. */
  summary(): string {
    const broken = this.#active.filter(entry => entry.broken > 0)
    return broken.map(entry => `${entry.name} ×${entry.broken}`).join(', ')
  }

  #collect(number: number, ask: (rule: Rule) => string | undefined): readonly Violation[] {
    let violations: Violation[] | undefined
    for (const entry of this.#active) {
      const found = ask(entry.rule)
      if (found === undefined) continue
      entry.broken += 1
      violations ??= []
      violations.push({
        rule: entry.name,
        mode: entry.mode,
        messageNumber: number,
        nth: entry.broken,
        text: `${entry.name} #${number}: ${found}`,
      })
    }
    return violations ?? noViolations
  }
}

interface ActiveRule {
  readonly name: RuleName
  readonly mode: Violation['mode']
  readonly rule: Rule
  broken: number
}

const noViolations: readonly Violation[] = []

function createRule(name: RuleName, { audioFormats }: RouteRules): Rule {
  switch (name) {
    case 'order':
      return createOrderRule()
    case 'timeCodes':
      return createTimeCodesRule()
    case 'counts':
      return createCountsRule()
    case 'audio':
      return createAudioRule(audioFormats)
  }
}
