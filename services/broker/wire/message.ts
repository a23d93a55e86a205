import type { AnimationIds } from './animation-ids.ts'
import type { Status } from './status.ts'

/**
 * What the rules, the metrics and the pages need to know of one AnimationDataStream; its bytes stay as they are.
 */
export type Message = HeaderMessage | DataMessage | StatusMessage | EmptyMessage

export interface HeaderMessage {
  readonly part: 'header'
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  /** Undefined when the message has none. */
  readonly audio: AudioHeader | undefined
  /** How many names there are; `readHeaderNames` reads them. */
  readonly blendShapes: number
  readonly joints: number
  /** Seconds since the epoch, to which all other time codes are relative. Any double, NaN too. */
  readonly startTimeCode: number
  readonly metadataKeys: ReadonlySet<string>
}

export interface AudioHeader {
  /** The enum's number: 0 is PCM, the only one that the specification has. */
  readonly format: number
  readonly channelCount: number
  readonly samplesPerSecond: number
  readonly bitsPerSample: number
}

/** Each part is undefined when the message has none. Time codes are seconds after the header's start. */
export interface DataMessage {
  readonly part: 'data'
  readonly skelAnimation: SkelAnimation | undefined
  readonly audio: { readonly timeCode: number; readonly bytes: number } | undefined
  readonly camera: TimeRange | undefined
}

/** The least and the greatest finite time code; undefined without any. */
export interface TimeRange {
  readonly earliest: number | undefined
  readonly latest: number | undefined
}

/** Each list is undefined when it is empty. The range is that of all four. */
export interface SkelAnimation extends TimeRange {
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
  /** The first time code that is not greater than the one before it in the list, or that is not finite. */
  readonly disorder: Disorder | undefined
  /** Of the arrays' lengths; equal unless the arrays differ. */
  readonly fewestValues: number
  readonly mostValues: number
}

export interface Disorder {
  readonly found: number
  /** Undefined for the list's first one. */
  readonly previous: number | undefined
}

export interface StatusMessage {
  readonly part: 'status'
  /** A code that the specification does not have counts as ERROR. */
  readonly status: Status
}

/** None of the parts is set. */
export interface EmptyMessage {
  readonly part: 'none'
}
