import type { RouteStats } from '../stats/broker-stats.ts'
import type { DataMessage } from '../wire/message.ts'

/**
 * Measures the delay of a request's messages relative to the start time in its header, and the skew between
 * its audio and its animation.
 */
export interface MediaTiming {
  measure(message: DataMessage, nowMs: number): void
}

/** @param startTimeCode of the header, in seconds since the epoch; 0 if the producer does not set it */
export function createMediaTiming(startTimeCode: number, { histograms }: RouteStats): MediaTiming {
  const startMs = startTimeCode > 0 && Number.isFinite(startTimeCode) ? startTimeCode * 1000 : undefined
  let audio: number | undefined
  let animation: number | undefined
  return {
    measure({ skelAnimation, audio: audioPart, camera }, nowMs) {
      const latest = skelAnimation?.latest ?? audioPart?.timeCode ?? camera?.latest
      if (startMs !== undefined && latest !== undefined) {
        histograms.lag_ms.record(Math.max(0, nowMs - startMs - latest * 1000))
      }
      audio = audioPart?.timeCode ?? audio
      animation = skelAnimation?.earliest ?? animation
      if (audio === undefined || animation === undefined) return
      histograms.audio_animation_skew_ms.record(Math.abs(audio - animation) * 1000)
    },
  }
}
