/** Methods of beans that run while this replica leads: {@link com.example.baton.spring.Leading}. */
package com.example.baton.spring;
