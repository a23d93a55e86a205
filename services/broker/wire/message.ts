import type { AnimationIds } from './animation-ids.ts'
import type { Status } from './status.ts'

/**
 * What rules, metrics and pages need of one AnimationDataStream. The encoded message is passed on unchanged.
 */
export type Message = HeaderMessage | DataMessage | StatusMessage | EmptyMessage

export interface HeaderMessage {
  readonly part: 'header'
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  /** Undefined without an audio header. */
  readonly audio: AudioHeader | undefined
  /** The number of names of blend shapes. */
  readonly blendShapes: number
  readonly joints: number
  /** The start in seconds since the epoch, to which other time codes are relative. Any double, even NaN. */
  readonly startTimeCode: number
}

export interface AudioHeader {
  /** The number of the enum; 0 is PCM, the only format of the specification. */
  readonly format: number
  readonly channelCount: number
  readonly samplesPerSecond: number
  readonly bitsPerSample: number
}

/**
 * A message with data. Parts that it does not have are undefined. Time codes are in seconds since the start
 * in the header.
 */
export interface DataMessage {
  readonly part: 'data'
  readonly skelAnimation: SkelAnimation | undefined
  readonly audio: { readonly timeCode: number; readonly bytes: number } | undefined
  readonly camera: TimeCodeRange | undefined
}

/** Finite time codes; undefined if there are none. */
export interface TimeCodeRange {
  readonly earliest: number | undefined
  readonly latest: number | undefined
}

/** Lists that are empty are undefined. The range covers all four lists. */
export interface SkelAnimation extends TimeCodeRange {
  readonly weights: TimedList | undefined
  readonly translations: TimedList | undefined
  readonly rotations: TimedList | undefined
  readonly scales: TimedList | undefined
}

/** A list of arrays with time codes. */
export interface TimedList {
  readonly lastTimeCode: number
  /** The first time code that is not finite, or not greater than the one before. */
  readonly disorder: Disorder | undefined
  /** The number of values in the shortest and in the longest array. */
  readonly fewestValues: number
  readonly mostValues: number
}

export interface Disorder {
  readonly found: number
  /** Undefined if `found` is the first of the list. */
  readonly previous: number | undefined
}

export interface StatusMessage {
  readonly part: 'status'
  /** An unknown code is read as ERROR. */
  readonly status: Status
}

/** A message in which none of the parts is set. */
export interface EmptyMessage {
  readonly part: 'none'
}
