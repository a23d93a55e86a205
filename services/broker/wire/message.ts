import type { AnimationIds } from './animation-ids.ts'
import type { Status } from './status.ts'

/**
 * The content of one AnimationDataStream that the rules, the metrics and the pages need; its bytes are
 * relayed unchanged.
 */
export type Message = HeaderMessage | DataMessage | StatusMessage | EmptyMessage

export interface HeaderMessage {
  readonly part: 'header'
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  /** Undefined if the message has none. */
  readonly audio: AudioHeader | undefined
  /** The number of names. */
  readonly blendShapes: number
  readonly joints: number
  /** Seconds since the epoch, to which all other time codes are relative. Any double, NaN too. */
  readonly startTimeCode: number
  readonly metadataKeys: ReadonlySet<string>
}

export interface AudioHeader {
  /** The number of the enum: 0 is PCM, the only format of the animation data specification. */
  readonly format: number
  readonly channelCount: number
  readonly samplesPerSecond: number
  readonly bitsPerSample: number
}

/** A part is undefined if the message does not have it. Time codes are seconds after the header's start. */
export interface DataMessage {
  readonly part: 'data'
  readonly skelAnimation: SkelAnimation | undefined
  readonly audio: { readonly timeCode: number; readonly bytes: number } | undefined
  readonly camera: TimeCodeRange | undefined
}

/** The smallest and the largest finite time code; undefined if there is none. */
export interface TimeCodeRange {
  readonly earliest: number | undefined
  readonly latest: number | undefined
}

/** A list is undefined if it is empty. The range includes all four. */
export interface SkelAnimation extends TimeCodeRange {
  readonly weights: TimedList | undefined
  readonly translations: TimedList | undefined
  readonly rotations: TimedList | undefined
  readonly scales: TimedList | undefined
}

/** One list of arrays with a time code each. */
export interface TimedList {
  readonly entries: number
  readonly firstTimeCode: number
  readonly lastTimeCode: number
  /** The first time code that is not finite, or not greater than the one before it in the list. */
  readonly disorder: Disorder | undefined
  /** The shortest and the longest array. */
  readonly fewestValues: number
  readonly mostValues: number
}

export interface Disorder {
  readonly found: number
  /** Undefined for the first of the list. */
  readonly previous: number | undefined
}

export interface StatusMessage {
  readonly part: 'status'
  /** An unknown code counts as ERROR. */
  readonly status: Status
}

/** None of the parts is set. */
export interface EmptyMessage {
  readonly part: 'none'
}
