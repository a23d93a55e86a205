import type { AnimationIds } from './animation-ids.ts'
import type { Status } from './status.ts'

/**
 * The content of one AnimationDataStream that the rules, the metrics and the pages need. The encoded message
 * itself is passed on unchanged.
 */
export type Message = HeaderMessage | DataMessage | StatusMessage | EmptyMessage

export interface HeaderMessage {
  readonly part: 'header'
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  /** Undefined if the message has no audio header. */
  readonly audio: AudioHeader | undefined
  /** The number of names of blend shapes. */
  readonly blendShapes: number
  readonly joints: number
  /** In seconds since the epoch; all other time codes are relative to it. It may be any double, even NaN. */
  readonly startTimeCode: number
}

export interface AudioHeader {
  /** The number of the enum; 0 is PCM, the only format of the animation data specification. */
  readonly format: number
  readonly channelCount: number
  readonly samplesPerSecond: number
  readonly bitsPerSample: number
}

/**
 * A part is undefined if the message does not have it. Time codes are in seconds since the header's start
 * time code.
 */
export interface DataMessage {
  readonly part: 'data'
  readonly skelAnimation: SkelAnimation | undefined
  readonly audio: { readonly timeCode: number; readonly bytes: number } | undefined
  readonly camera: TimeCodeRange | undefined
}

/** The smallest and the largest finite time code; both are undefined if there is none. */
export interface TimeCodeRange {
  readonly earliest: number | undefined
  readonly latest: number | undefined
}

/** A list is undefined if it is empty. The range covers the time codes of all four lists. */
export interface SkelAnimation extends TimeCodeRange {
  readonly weights: TimedList | undefined
  readonly translations: TimedList | undefined
  readonly rotations: TimedList | undefined
  readonly scales: TimedList | undefined
}

/** A list of arrays, each of which has a time code. */
export interface TimedList {
  readonly lastTimeCode: number
  /** The first time code that is not finite, or not greater than the one before it in the list. */
  readonly disorder: Disorder | undefined
  /** The number of values in the shortest and in the longest array. */
  readonly fewestValues: number
  readonly mostValues: number
}

export interface Disorder {
  readonly found: number
  /** The time code before it; undefined if `found` is the first of the list. */
  readonly previous: number | undefined
}

export interface StatusMessage {
  readonly part: 'status'
  /** The status; an unknown code is read as ERROR. */
  readonly status: Status
}

/** A message in which none of the parts is set. */
export interface EmptyMessage {
  readonly part: 'none'
}
