import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { RecordedCallsSchema } from '@tollway/proto/tollway/operator/v1/counters'
import type { DecisionRequest } from '../../limiter/decision.ts'
import type { ReadStep, RecordedCall } from './generation.ts'

/** Encrypts parts of a recording before they leave the process, and decrypts the parts of other processes. */
export interface PartCipher {
  encrypt(bytes: Uint8Array): Uint8Array
  /** @throws Error if the bytes were changed, or encrypted with another salt */
  decrypt(bytes: Uint8Array): Uint8Array
}

export const noEncryption: PartCipher = { encrypt: bytes => bytes, decrypt: bytes => bytes }

const nonceBytes = 12
const tagBytes = 16

/** The key is derived from the salt, which all processes have and the operator does not. */
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

/** A part has at most this many calls, so that the process takes less than a millisecond to encode it. */
const maxPartCalls = 200
const maxPartUnits = 32 * 1024

/** Takes calls until a part is full, and encodes them. `isLast` is true if no call is left. */
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
      // A step without a call has read many records of other domains: the part ends, to spare the event loop.
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
    purpose: request.purpose ?? '',
    descriptors: request.descriptors.map(({ entries, hitsAddend, givesBack }) => ({
      entries: [...entries],
      isNegativeHits: givesBack === true,
      ...(hitsAddend !== undefined && { hitsAddend: BigInt(hitsAddend) }),
    })),
  }))
  return toBinary(RecordedCallsSchema, create(RecordedCallsSchema, { calls: message }))
}

/**
 * Decodes the calls of a part, all of this domain.
 *
 * @throws Error if the part is malformed
 */
export function readPart(bytes: Uint8Array, domain: string): readonly RecordedCall[] {
  return fromBinary(RecordedCallsSchema, bytes).calls.map(
    ({ ms, aheadMicros, count, hitsAddend, purpose, descriptors }) => {
      const request: DecisionRequest = {
        domain,
        hitsAddend: toSafeHits(hitsAddend),
        ...((purpose === 'check' || purpose === 'report') && { purpose }),
        descriptors: descriptors.map(({ entries, hitsAddend, isNegativeHits }) => ({
          entries: entries.map(({ key, value }) => ({ key, value })),
          ...(isNegativeHits && { givesBack: true }),
          ...(hitsAddend !== undefined && { hitsAddend: toSafeHits(hitsAddend) }),
        })),
      }
      return { request, ms: Number(ms), aheadMicros, count }
    },
  )
}

const toSafeHits = (hits: bigint) => Math.min(Number(hits), Number.MAX_SAFE_INTEGER)
