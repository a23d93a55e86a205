import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { RecordedCallsSchema } from '@tollway/proto/tollway/operator/v1/counters'
import type { DecisionRequest } from '../../limiter/decision.ts'
import type { ReadStep, RecordedCall } from './generation.ts'

/** How parts of a recording leave the process, and are read by another one. */
export interface PartCipher {
  encrypt(bytes: Uint8Array): Uint8Array
  /** @throws Error if another salt or other bytes were sealed */
  decrypt(bytes: Uint8Array): Uint8Array
}

export const noEncryption: PartCipher = { encrypt: bytes => bytes, decrypt: bytes => bytes }

const nonceBytes = 12
const tagBytes = 16

/** Encrypts parts with a key of the salt, which all processes have and the operator has not. */
export function createPartCipher(salt: string): PartCipher {
  const key = new Uint8Array(hkdfSync('sha256', salt, '', 'recorded calls', 32))
  return {
    encrypt(bytes) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', key, nonce)
      return Buffer.concat([nonce, cipher.update(bytes), cipher.final(), cipher.getAuthTag()])
    },
    decrypt(bytes) {
      const end = bytes.length - tagBytes
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), {
        authTagLength: tagBytes,
      })
      decipher.setAuthTag(bytes.subarray(end))
      try {
        return Buffer.concat([decipher.update(bytes.subarray(nonceBytes, end)), decipher.final()])
      } catch {
        throw new Error('DECISION_KEYS_SALT is not the same at all processes')
      }
    },
  }
}

/** A part takes less than a millisecond of a process that decides calls meanwhile. */
const maxPartCalls = 200
const maxPartUnits = 32 * 1024

/** Takes calls until a part is full. `isLast` tells that none is left. */
export function takePart(steps: Iterator<ReadStep>): {
  readonly calls: Uint8Array
  readonly isLast: boolean
} {
  const calls: RecordedCall[] = []
  let [units, isLast] = [0, false]
  while (!isLast && calls.length < maxPartCalls && units < maxPartUnits) {
    const { value, done } = steps.next()
    isLast = done === true
    const call: RecordedCall | undefined = value?.call
    if (call === undefined) {
      // A step without a call has read many records of other domains.
      if (!isLast) break
      continue
    }
    calls.push(call)
    for (const { entries } of call.request.descriptors) {
      for (const { key, value } of entries) units += key.length + value.length
    }
  }
  return { calls: encode(calls), isLast }
}

function encode(calls: readonly RecordedCall[]): Uint8Array {
  const message = calls.map(({ request, ms, aheadMicros, count }) => ({
    ms: BigInt(ms),
    aheadMicros,
    count,
    hitsAddend: BigInt(request.hitsAddend),
    descriptors: request.descriptors.map(({ entries, hitsAddend }) => ({
      entries: [...entries],
      ...(hitsAddend !== undefined && { hitsAddend: BigInt(hitsAddend) }),
    })),
  }))
  return toBinary(RecordedCallsSchema, create(RecordedCallsSchema, { calls: message }))
}

/**
 * Reads the calls of a part.
 *
 * @throws Error if it is malformed
 */
export function readPart(bytes: Uint8Array, domain: string): readonly RecordedCall[] {
  return fromBinary(RecordedCallsSchema, bytes).calls.map(
    ({ ms, aheadMicros, count, hitsAddend, descriptors }) => {
      const request: DecisionRequest = {
        domain,
        hitsAddend: toSafeHits(hitsAddend),
        descriptors: descriptors.map(({ entries, hitsAddend }) => ({
          entries: entries.map(({ key, value }) => ({ key, value })),
          ...(hitsAddend !== undefined && { hitsAddend: toSafeHits(hitsAddend) }),
        })),
      }
      return { request, ms: Number(ms), aheadMicros, count }
    },
  )
}

const toSafeHits = (hits: bigint) => Math.min(Number(hits), Number.MAX_SAFE_INTEGER)
