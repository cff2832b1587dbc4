/* SPDX-License-Identifier: Apache-2.0
 *
 * Words to the service manager that has started this process, as systemd's Type=notify has them.
 */
#ifndef FOLIOT_LIB_IO_SUPERVISOR_H
#define FOLIOT_LIB_IO_SUPERVISOR_H

/*
 * Tell it a state; nothing if there is no manager that wants to know, or it does not listen.
 *
 * state:  lines such as "READY=1" or "STOPPING=1". Does not block.
 * source: sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names; with @ it is abstract
 */
void supervisor_tell(const char *state);

#endif
