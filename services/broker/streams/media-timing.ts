import type { RouteStats } from '../broker-stats.ts'
import type { DataMessage } from '../wire/message.ts'

/**
 * Measures the delay of a request's messages relative to the start time in its header, and the skew between
 * its audio and its animation.
 */
export class MediaTiming {
  readonly #histograms: RouteStats['histograms']
  readonly #startMs: number
  #audio: number | undefined
  #animation: number | undefined

  /** @param startTimeCode of the header, in seconds since the epoch; 0 if the producer does not set it */
  constructor(startTimeCode: number, { histograms }: RouteStats) {
    this.#histograms = histograms
    this.#startMs = startTimeCode > 0 ? startTimeCode * 1000 : Number.NaN
  }

  measure({ skelAnimation, audio, camera }: DataMessage, nowMs: number): void {
    const latest = skelAnimation?.latest ?? audio?.timeCode ?? camera?.latest
    if (latest !== undefined && Number.isFinite(this.#startMs)) {
      this.#histograms.lag_ms.record(Math.max(0, nowMs - this.#startMs - latest * 1000))
    }
    this.#audio = audio?.timeCode ?? this.#audio
    this.#animation = skelAnimation?.earliest ?? this.#animation
    if (this.#audio === undefined || this.#animation === undefined) return
    this.#histograms.audio_animation_skew_ms.record(Math.abs(this.#audio - this.#animation) * 1000)
  }
}
