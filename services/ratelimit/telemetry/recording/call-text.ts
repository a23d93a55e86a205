import type { DecisionRequest, DescriptorRequest } from '../../limiter/decision.ts'
import type { DescriptorEntry } from '../../rules/match.ts'
import { hashEntries, hashNumber, hashText, startHash } from '../content-hash.ts'
import { isSampled } from './sampling.ts'

/** A call that needs more UTF-16 code units than this is not recorded. */
const maxCallUnits = 4_096

/**
 * Computes `contentHash` over what `writeCall` writes. Returns the number of units that `writeCall` needs, or
 * 0 for a call that is not recorded: it is too long, or has no sampled descriptor that rules can match.
 */
export function hashCall(request: DecisionRequest, halvings: number): number {
  startHash()
  let units = headUnits + hashText(request.domain)
  hashNumber(request.hitsAddend)
  if (request.purpose !== undefined) hashText(request.purpose)
  let descriptors = 0
  for (const descriptor of request.descriptors) {
    if (!isRecorded(descriptor, halvings)) continue
    descriptors += 1
    hashNumber(descriptor.hitsAddend ?? -1)
    const { entries, givesBack } = descriptor
    if (givesBack) hashNumber(-2)
    units += descriptorUnits + entryUnits * entries.length + hashEntries(entries)
  }
  return descriptors === 0 || units > maxCallUnits ? 0 : units
}

/**
 * Returns whether the call counts one hit for each descriptor, as most calls do. Equal sums follow from any
 * order of such calls.
 */
export function countsOneHitEach({ purpose, hitsAddend, descriptors }: DecisionRequest): boolean {
  if (purpose !== undefined || hitsAddend > 1) return false
  for (const each of descriptors) if (each.givesBack || (each.hitsAddend ?? 1) !== 1) return false
  return true
}

/** Returns whether a descriptor is recorded. Rules do not match a descriptor with a limit of its caller. */
function isRecorded({ limit, entries }: DescriptorRequest, halvings: number): boolean {
  return limit === undefined && isSampled(entries, halvings)
}

/** The length of the domain, the hits in four units, and the number of descriptors. */
const headUnits = 6
/**
 * The units of a descriptor without its entries: flags, the hits in four units, and the number of entries.
 */
const descriptorUnits = 6
/** The flags of a descriptor, which are added. */
const hasHits = 1
const givesHitsBack = 2
/** The purpose of the call, which all of its descriptors have. */
const purposeFlags = { check: 4, report: 8 }
/** The lengths of key and value. */
const entryUnits = 2
const unitBits = 0x10000

/** Writes a call at `start`. At least as many units as `hashCall` returned must be free there. */
export function writeCall(
  into: Uint16Array,
  start: number,
  request: DecisionRequest,
  halvings: number,
): void {
  let at = writeText(into, start, request.domain)
  at = writeNumber(into, at, request.hitsAddend)
  const recorded = request.descriptors.filter(descriptor => isRecorded(descriptor, halvings))
  into[at++] = recorded.length
  const { purpose } = request
  const ofPurpose = purpose === undefined ? 0 : purposeFlags[purpose]
  for (const { hitsAddend, givesBack, entries } of recorded) {
    into[at++] = (hitsAddend === undefined ? 0 : hasHits) + (givesBack ? givesHitsBack : 0) + ofPurpose
    at = writeNumber(into, at, hitsAddend ?? 0)
    into[at++] = entries.length
    for (const { key, value } of entries) at = writeText(into, writeText(into, at, key), value)
  }
}

function writeText(into: Uint16Array, start: number, text: string): number {
  let at = start
  into[at++] = text.length
  for (let index = 0; index < text.length; index++) into[at++] = text.charCodeAt(index)
  return at
}

function writeNumber(into: Uint16Array, start: number, value: number): number {
  let rest = value
  for (let at = start; at < start + 4; at++) {
    into[at] = rest % unitBits
    rest = Math.floor(rest / unitBits)
  }
  return start + 4
}

/** Reads a call that `writeCall` wrote at `start`. */
export function readCall(from: Uint16Array, start: number): DecisionRequest {
  let at = start
  const word = () => from[at++] ?? 0
  const text = () => {
    const length = word()
    at += length
    return String.fromCharCode.apply(null, from.subarray(at - length, at) as never)
  }
  const number = () => {
    at += 4
    return [1, 2, 3, 4].reduce((sum, back) => sum * unitBits + (from[at - back] ?? 0), 0)
  }
  const domain = text()
  const hitsAddend = number()
  const descriptors: DescriptorRequest[] = []
  let purpose: DecisionRequest['purpose']
  for (let left = word(); left > 0; left--) {
    const flags = word()
    if (flags & purposeFlags.check) purpose = 'check'
    else if (flags & purposeFlags.report) purpose = 'report'
    const hits = number()
    const entries: DescriptorEntry[] = []
    for (let more = word(); more > 0; more--) entries.push({ key: text(), value: text() })
    descriptors.push({
      entries,
      ...(flags & hasHits && { hitsAddend: hits }),
      ...(flags & givesHitsBack && { givesBack: true }),
    })
  }
  return { domain, descriptors, hitsAddend, ...(purpose && { purpose }) }
}
