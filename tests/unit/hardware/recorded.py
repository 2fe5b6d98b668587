"""Machines as trees of files: what the kernel of each shows below / , cut down to what is read."""

from __future__ import annotations

import struct
from pathlib import Path

CPU = "sys/devices/system/cpu"
XEON_FLAGS = (
    "fpu sse sse2 ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt aes xsave avx f16c rdrand abm avx2 bmi2 avx512f avx512dq "
    "avx512ifma avx512cd sha_ni avx512bw avx512vl avx_vnni avx512_bf16 avx512vbmi avx512_vnni amx_bf16 avx512_fp16 "
    "amx_tile amx_int8"
)


def plant(root: Path, files: dict[str, str | bytes], links: dict[str, str] | None = None) -> Path:
    """Write files and links below a root."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    for name, target in (links or {}).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    return root


def caches(cpu: int, kinds: list[tuple[int, str, str, str]]) -> dict[str, str | bytes]:
    """The cache folder of one CPU: (level, type, size, CPUs that share it) each."""
    found: dict[str, str | bytes] = {}
    for index, (level, kind, size, shared) in enumerate(kinds):
        folder = f"{CPU}/cpu{cpu}/cache/index{index}"
        found |= {
            f"{folder}/level": f"{level}\n",
            f"{folder}/type": f"{kind}\n",
            f"{folder}/size": f"{size}\n",
            f"{folder}/shared_cpu_list": f"{shared}\n",
        }
    return found


def x86_cpuinfo(count: int, model: str, vendor: str, flags: str) -> str:
    block = "processor\t: {}\nvendor_id\t: {}\nmodel name\t: {}\ncpu MHz\t\t: 2100.000\nflags\t\t: {}\n"
    return "\n".join(block.format(one, vendor, model, flags) for one in range(count))


def memory_module(
    mib: int, kind: int, rated: int, configured: int, *, length: int = 0x5C, extended: bool = False
) -> bytes:
    """An SMBIOS record of type 17, as a firmware of a given age would write it."""
    record = bytearray(length)
    record[0], record[1] = 17, length
    struct.pack_into("<H", record, 0x0C, 0x7FFF if extended else mib)
    record[0x10], record[0x12] = 1, kind
    for at, form, value in (
        (0x15, "<H", rated),
        (0x17, "B", 2),
        (0x1A, "B", 3),
        (0x1C, "<I", mib),
        (0x20, "<H", configured),
    ):
        if at + struct.calcsize(form) <= length:
            struct.pack_into(form, record, at, value)
    return bytes(record) + b"DIMM_A1\0Maker\0PART-16\0\0"


def raspberry_pi_5(root: Path) -> Path:
    core = (
        "processor\t: {}\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp "
        "asimdhp cpuid asimdrdm lrcpc dcpop asimddp\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n"
    )
    files: dict[str, str | bytes] = {
        "proc/cpuinfo": "\n".join(core.format(i) for i in range(4)) + "\nModel\t\t: Raspberry Pi 5 Model B Rev 1.0\n",
        "proc/device-tree/model": b"Raspberry Pi 5 Model B Rev 1.0\0",
        "proc/device-tree/compatible": b"raspberrypi,5-model-b\0brcm,bcm2712\0",
        "proc/meminfo": "MemTotal:        8245440 kB\nMemAvailable:    7000000 kB\n"
        "SwapTotal:  102396 kB\nSwapFree: 102396 kB\n",
        "proc/sys/kernel/osrelease": "6.6.31+rpt-rpi-2712\n",
        "proc/self/cgroup": "0::/user.slice/user-1000.slice/session-1.scope\n",
        "proc/self/mountinfo": "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
        "25 1 179:2 / / rw,noatime shared:1 - ext4 /dev/mmcblk0p2 rw\n",
        "proc/self/status": "Name:\tpython\nCpus_allowed_list:\t0-3\n",
        "proc/stat": "cpu  1 2 3 4\n",
        "proc/diskstats": "179 0 mmcblk0 1 2 3\n",
        "proc/net/dev": "eth0: 1 2 3\n",
        "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
        f"{CPU}/online": "0-3\n",
        f"{CPU}/cpufreq/policy0/scaling_governor": "ondemand\n",
        f"{CPU}/cpufreq/policy0/scaling_driver": "cpufreq-dt\n",
        f"{CPU}/cpufreq/policy0/cpuinfo_min_freq": "1500000\n",
        f"{CPU}/cpufreq/policy0/cpuinfo_max_freq": "2400000\n",
        f"{CPU}/cpufreq/policy0/scaling_cur_freq": "1500000\n",
        f"{CPU}/cpufreq/boost": "0\n",
        "sys/class/thermal/thermal_zone0/temp": "48350\n",
        "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
        "sys/block/mmcblk0/size": "124735488\n",
        "sys/block/mmcblk0/queue/rotational": "0\n",
        "sys/block/mmcblk0/device/name": "SN64G\n",
        "sys/block/loop0/size": "8\n",
        "sys/fs/cgroup/user.slice/user-1000.slice/session-1.scope/cpu.max": "max 100000\n",
    }
    for one in range(4):
        files[f"{CPU}/cpu{one}/topology/core_cpus_list"] = f"{one}\n"
        files[f"{CPU}/cpu{one}/topology/physical_package_id"] = "0\n"
        files |= caches(
            one,
            [
                (1, "Data", "64K", f"{one}"),
                (1, "Instruction", "64K", f"{one}"),
                (2, "Unified", "512K", f"{one}"),
                (3, "Unified", "2048K", "0-3"),
            ],
        )
    return plant(root, files, {"sys/block/mmcblk0/device/subsystem": "../../../bus/mmc"})


def dual_xeon(root: Path) -> Path:
    """Two sockets of four cores with two threads each: CPUs 8 to 15 are the second threads of 0 to 7."""
    files: dict[str, str | bytes] = {
        "proc/cpuinfo": x86_cpuinfo(16, "Intel(R) Xeon(R) Platinum 8480+", "GenuineIntel", XEON_FLAGS),
        "proc/meminfo": "MemTotal:  67108864 kB\nMemAvailable: 60000000 kB\nSwapTotal: 0 kB\nHugePages_Total:  8\n"
        "Hugepagesize: 2048 kB\n",
        "proc/sys/kernel/osrelease": "5.14.0-427.el9.x86_64\n",
        "proc/self/status": "Cpus_allowed_list:\t0-15\n",
        f"{CPU}/online": "0-15\n",
        f"{CPU}/smt/active": "1\n",
        f"{CPU}/intel_pstate/no_turbo": "0\n",
        "sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
        "sys/class/dmi/id/product_name": "PowerEdge R760\n",
        "sys/class/dmi/id/board_name": "0VRV9X\n",
        "sys/class/dmi/id/bios_version": "2.1.5\n",
        "sys/class/dmi/id/product_serial": "SECRET1\n",
        "sys/firmware/dmi/entries/17-0/raw": memory_module(32768, 0x22, 4800, 4400, extended=True),
        "sys/firmware/dmi/entries/17-1/raw": memory_module(32768, 0x22, 4800, 4400, extended=True),
        "sys/firmware/dmi/entries/17-2/raw": memory_module(0, 0x22, 0, 0),
        "sys/block/nvme0n1/size": "7501476528\n",
        "sys/block/nvme0n1/queue/rotational": "0\n",
        "sys/block/nvme0n1/device/model": "Dell Ent NVMe CM6 RI 3.84TB            \n",
        "sys/block/nvme0n1/device/transport": "pcie\n",
        "sys/block/nvme0n1/device/serial": "SECRET2\n",
        "sys/block/sda/size": "1953525168\n",
        "sys/block/sda/queue/rotational": "1\n",
        "sys/block/sda/device/model": "ST1000NX0443    \n",
        "sys/class/hwmon/hwmon0/name": "coretemp\n",
        "sys/class/hwmon/hwmon0/temp1_input": "41000\n",
    }
    for socket in (0, 1):
        first = 4 * socket
        cpus = f"{first}-{first + 3},{first + 8}-{first + 11}"
        node = f"sys/devices/system/node/node{socket}"
        files |= {
            f"{node}/cpulist": f"{cpus}\n",
            f"{node}/meminfo": f"Node {socket} MemTotal:       33554432 kB\nNode {socket} MemFree: 1 kB\n",
            f"{node}/distance": "10 21\n" if socket == 0 else "21 10\n",
            f"sys/class/powercap/intel-rapl:{socket}/energy_uj": "123456789\n",
            f"sys/class/powercap/intel-rapl:{socket}/name": f"package-{socket}\n",
        }
        for one in (*range(first, first + 4), *range(first + 8, first + 12)):
            pair = f"{one % 8},{one % 8 + 8}"
            policy = f"{CPU}/cpufreq/policy{one}"
            files |= {
                f"{CPU}/cpu{one}/topology/core_cpus_list": f"{pair}\n",
                f"{CPU}/cpu{one}/topology/physical_package_id": f"{socket}\n",
                f"{CPU}/cpu{one}/thermal_throttle/core_throttle_count": "0\n",
                f"{policy}/scaling_governor": "performance\n",
                f"{policy}/scaling_driver": "intel_pstate\n",
                f"{policy}/cpuinfo_min_freq": "800000\n",
                f"{policy}/cpuinfo_max_freq": "3800000\n",
                f"{policy}/base_frequency": "2000000\n",
                f"{policy}/scaling_cur_freq": "3100000\n" if one else "2900000\n",
            }
            files |= caches(
                one,
                [
                    (1, "Data", "48K", pair),
                    (1, "Instruction", "32K", pair),
                    (2, "Unified", "2048K", pair),
                    (3, "Unified", "107520K", cpus),
                ],
            )
    return plant(root, files)


def epyc_vm(root: Path) -> Path:
    flags = "fpu sse4_1 sse4_2 avx f16c hypervisor avx2 fma avx512f avx512_bf16 avx512_vnni"
    files: dict[str, str | bytes] = {
        "proc/cpuinfo": x86_cpuinfo(2, "AMD EPYC", "AuthenticAMD", flags),
        "proc/meminfo": "MemTotal: 24684100 kB\nMemAvailable: 23916172 kB\nSwapTotal: 0 kB\n",
        "proc/sys/kernel/osrelease": "6.1.0-28-cloud-amd64\n",
        "proc/self/status": "Cpus_allowed_list:\t0-1\n",
        f"{CPU}/online": "0-1\n",
        "sys/class/dmi/id/sys_vendor": "QEMU\n",
        "sys/class/dmi/id/product_name": "Standard PC (Q35 + ICH9, 2009)\n",
        "sys/devices/system/node/node0/cpulist": "0-1\n",
        "sys/firmware/dmi/entries/17-0/raw": memory_module(24576, 0x07, 0, 0, length=0x28),
        "sys/block/vda/size": "536870912\n",
        "sys/block/vda/queue/rotational": "1\n",
    }
    for one in (0, 1):
        files |= {
            f"{CPU}/cpu{one}/topology/thread_siblings_list": f"{one}\n",
            f"{CPU}/cpu{one}/topology/physical_package_id": "0\n",
        }
        files |= caches(
            one, [(1, "Data", "32K", f"{one}"), (2, "Unified", "1024K", f"{one}"), (3, "Unified", "32768K", "0-1")]
        )
    return plant(root, files, {"sys/block/vda/device/subsystem": "../../../../../bus/virtio"})


def h200_vm(root: Path) -> Path:
    """A virtual machine with a GPU: no clocks, no sensors, no limits; its hypervisor tells the processor its name."""
    flags = f"{XEON_FLAGS} hypervisor"
    files: dict[str, str | bytes] = {
        "proc/cpuinfo": x86_cpuinfo(16, "Intel(R) Xeon(R) Processor", "GenuineIntel", flags),
        "proc/meminfo": "MemTotal: 268435456 kB\nMemAvailable: 260000000 kB\nSwapTotal: 0 kB\n",
        "proc/self/cgroup": "0::/process_api/core\n",
        "proc/self/mountinfo": "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n",
        "proc/self/status": "Cpus_allowed_list:\t0-15\n",
        "proc/stat": "cpu 1\n",
        f"{CPU}/online": "0-15\n",
        "sys/devices/system/node/node0/cpulist": "0-15\n",
        "sys/block/vda/size": "536870912\n",
        "sys/block/vdb/size": "621773\n",
        "sys/block/vdb/ro": "1\n",
        "sys/block/zram0/size": "0\n",
    }
    for one in range(16):
        files |= {
            f"{CPU}/cpu{one}/topology/core_cpus_list": f"{one}\n",
            f"{CPU}/cpu{one}/topology/physical_package_id": "0\n",
        }
        files |= caches(
            one,
            [
                (1, "Data", "48K", f"{one}"),
                (1, "Instruction", "32K", f"{one}"),
                (2, "Unified", "2048K", f"{one}"),
                (3, "Unified", "307200K", "0-15"),
            ],
        )
    (root / "sys/class/thermal").mkdir(parents=True)
    plant(root, files, {f"sys/block/{name}/device/subsystem": "../../../../bus/virtio" for name in ("vda", "vdb")})
    device = root / "dev/cpu/0/cpuid"
    device.parent.mkdir(parents=True)
    with device.open("wb") as file:  # as long as the question's number: a file with a hole
        file.seek(0x4000_0000)
        file.write(struct.pack("<I", 0x4000_0001) + b"KVMKVMKVM\0\0\0")
    return root


def container_v2(root: Path) -> Path:
    """Two of 64 cores by a quota two levels above, four GiB by another."""
    top, pod = "sys/fs/cgroup", "sys/fs/cgroup/kubepods/burstable/pod1"
    return plant(
        root,
        {
            "proc/self/cgroup": "0::/kubepods/burstable/pod1/c1\n",
            "proc/self/mountinfo": "40 39 0:30 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n",
            "proc/self/status": "Cpus_allowed_list:\t0-63\n",
            f"{top}/cgroup.controllers": "cpu memory cpuset\n",
            f"{top}/kubepods/cpu.max": "6000000 100000\n",
            f"{top}/kubepods/burstable/cpu.max": "max 100000\n",
            f"{pod}/cpu.max": "200000 100000\n",
            f"{pod}/memory.max": "8589934592\n",
            f"{pod}/c1/cpu.max": "max 100000\n",
            f"{pod}/c1/memory.max": "4294967296\n",
            f"{pod}/c1/cpuset.cpus.effective": "0-63\n",
            f"{CPU}/online": "0-63\n",
            "var/run/secrets/kubernetes.io/serviceaccount/token": "x",
        },
    )


def container_v1(root: Path) -> Path:
    """One and a half cores, two GiB and eight CPUs, in a container that sees its own cgroup as the top."""
    lines = (
        "40 30 0:36 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory",
        "41 30 0:37 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct",
        "42 30 0:38 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset",
    )
    return plant(
        root,
        {
            "proc/self/cgroup": "5:cpuset:/docker/abc\n4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n"
            "1:name=systemd:/x\n",
            "proc/self/mountinfo": "\n".join(lines) + "\n",
            "proc/self/status": "Cpus_allowed_list:\t0-63\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
            "sys/fs/cgroup/cpuset/cpuset.cpus": "0-7\n",
            ".dockerenv": "",
        },
    )


APPLE = """hw.ncpu: 8
hw.physicalcpu: 8
hw.logicalcpu: 8
hw.packages: 1
hw.memsize: 17179869184
hw.model: Mac14,2
hw.nperflevels: 2
hw.perflevel0.name: Performance
hw.perflevel0.physicalcpu: 4
hw.perflevel0.l1dcachesize: 131072
hw.perflevel0.l1icachesize: 196608
hw.perflevel0.l2cachesize: 16777216
hw.perflevel0.cpusperl2: 4
hw.perflevel1.name: Efficiency
hw.perflevel1.physicalcpu: 4
hw.perflevel1.l1dcachesize: 65536
hw.perflevel1.l2cachesize: 4194304
hw.perflevel1.cpusperl2: 4
hw.optional.neon: 1
hw.optional.AdvSIMD: 1
hw.optional.arm.FEAT_BF16: 1
hw.optional.arm.FEAT_I8MM: 1
hw.optional.arm.FEAT_DotProd: 1
hw.optional.arm.FEAT_SME: 0
machdep.cpu.brand_string: Apple M2
kern.osproductversion: 14.5
kern.osrelease: 23.5.0
kern.hv_vmm_present: 0
"""
