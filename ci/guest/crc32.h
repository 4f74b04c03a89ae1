/* CRC-32 for User Mode Linux, eight bytes at a time.
 *
 * The kernel's portable CRC takes a table look-up for every byte, each of which waits for the
 * one before. rdma_rxe computes it over every packet twice, which is two fifths of a guest's
 * time. Eight tables (Kounavis and Berry, 2005: "slicing-by-8") make eight look-ups of a step
 * independent. x86-64 is little-endian, as this assumes. */
#include <linux/cache.h>
#include <linux/init.h>
#include <linux/unaligned.h>

static u32 sliced[8][256] __ro_after_init;
static bool is_sliced __ro_after_init;

static u32 crc32_le_arch(u32 crc, const u8 *p, size_t len)
{
	for (; is_sliced && len >= 8; p += 8, len -= 8) {
		u64 bytes = get_unaligned_le64(p) ^ crc;

		crc = sliced[7][bytes & 255] ^ sliced[6][bytes >> 8 & 255] ^
		      sliced[5][bytes >> 16 & 255] ^ sliced[4][bytes >> 24 & 255] ^
		      sliced[3][bytes >> 32 & 255] ^ sliced[2][bytes >> 40 & 255] ^
		      sliced[1][bytes >> 48 & 255] ^ sliced[0][bytes >> 56];
	}
	return crc32_le_base(crc, p, len);
}

#define crc32_be_arch crc32_be_base
#define crc32c_arch crc32c_base

#define crc32_mod_init_arch crc32_mod_init_arch
static void __init crc32_mod_init_arch(void)
{
	static const u8 zeros[8];

	/* Row k: a byte, and then k bytes of zeros. */
	for (u32 i = 0; i < 256; i++) {
		u8 byte = (u8)i;

		sliced[0][i] = crc32_le_base(0, &byte, 1);
		for (u32 k = 1; k < 8; k++)
			sliced[k][i] = crc32_le_base(sliced[k - 1][i], zeros, 1);
	}
	is_sliced = true;
}

static inline u32 crc32_optimizations_arch(void)
{
	return CRC32_LE_OPTIMIZATION;
}
