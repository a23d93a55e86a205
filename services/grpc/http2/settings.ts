import {
  ConnectionError,
  defaultMaxFrameBytes,
  defaultWindowBytes,
  frameBytes,
  frameTypes,
  maxWindowBytes,
  settingIds,
} from './frames/frames.ts'

const maxMaxFrameBytes = 2 ** 24 - 1
const settingBytes = 6

/** The settings of RFC 9113 (6.5.2) that affect a server which never pushes. */
interface PeerSettings {
  headerTableBytes: number
  initialWindowBytes: number
  maxFrameBytes: number
}

export function defaultPeerSettings(): PeerSettings {
  return {
    headerTableBytes: 4096,
    initialWindowBytes: defaultWindowBytes,
    maxFrameBytes: defaultMaxFrameBytes,
  }
}

/**
 * Applies the settings of a frame. Unknown settings are ignored.
 *
 * @throws ConnectionError for an invalid value
 */
export function readPeerSettings(settings: PeerSettings, payload: Buffer): void {
  if (payload.length % settingBytes !== 0) {
    throw new ConnectionError('FRAME_SIZE_ERROR', `SETTINGS of ${payload.length} bytes`)
  }
  for (let offset = 0; offset < payload.length; offset += settingBytes) {
    readSetting(settings, payload.readUInt16BE(offset), payload.readUInt32BE(offset + 2))
  }
}

function readSetting(settings: PeerSettings, id: number, value: number): void {
  if (id === settingIds.HEADER_TABLE_SIZE) {
    settings.headerTableBytes = value
  } else if (id === settingIds.ENABLE_PUSH) {
    if (value > 1) throw new ConnectionError('PROTOCOL_ERROR', `ENABLE_PUSH of ${value}`)
  } else if (id === settingIds.INITIAL_WINDOW_SIZE) {
    if (value > maxWindowBytes) {
      throw new ConnectionError('FLOW_CONTROL_ERROR', `INITIAL_WINDOW_SIZE of ${value}`)
    }
    settings.initialWindowBytes = value
  } else if (id === settingIds.MAX_FRAME_SIZE) {
    if (value < defaultMaxFrameBytes || value > maxMaxFrameBytes) {
      throw new ConnectionError('PROTOCOL_ERROR', `MAX_FRAME_SIZE of ${value}`)
    }
    settings.maxFrameBytes = value
  }
}

/** Returns a SETTINGS frame. Settings that it leaves out have the defaults of RFC 9113. */
export function settingsFrame(maxConcurrentStreams: number, maxHeaderListBytes: number): Buffer {
  const settings = [
    [settingIds.MAX_CONCURRENT_STREAMS, maxConcurrentStreams],
    [settingIds.MAX_HEADER_LIST_SIZE, maxHeaderListBytes],
  ] as const
  const payload = Buffer.alloc(settings.length * settingBytes)
  for (const [index, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, index * settingBytes)
    payload.writeUInt32BE(value, index * settingBytes + 2)
  }
  return frameBytes(frameTypes.SETTINGS, 0, 0, payload)
}
