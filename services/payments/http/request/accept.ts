const maxRanges = 50

/** Whether an Accept header (RFC 9110, section 12.5.1) takes the media type. Without one, any is taken. */
export function accepts(type: string, accept: string | undefined): boolean {
  if (accept === undefined || accept.trim() === '') return true
  return accept
    .split(',', maxRanges)
    .map(range => range.split(';').map(part => part.trim().toLowerCase()))
    .some(([range = '', ...parameters]) => covers(range, type) && !parameters.some(isZeroWeight))
}

function covers(range: string, type: string): boolean {
  return range === type || range === '*/*' || range === `${type.split('/', 1)[0]}/*`
}

function isZeroWeight(parameter: string): boolean {
  return /^q=0(\.0{0,3})?$/.test(parameter)
}
